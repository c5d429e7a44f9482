package etcd

import (
	"context"
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"quaymaster.dev/internal/mycloud/server/store"
)

// errExists is returned if there is a state already.
var errExists = errors.New("there is a state already; choose a different prefix")

// Read calls use with a copy of a state. Servers may go on meanwhile.
func Read(o Options, use func(*store.Copy) error) error {
	s, err := open(o)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }() // it was only read
	if s.copy.at.value == "" {
		return fmt.Errorf("etcd %v has no state with the prefix %s", o.Config.Endpoints, o.Prefix)
	}
	return use(s.copy.Copy)
}

// Take is Read, and deletes the state afterwards. It fails, and deletes nothing, if the state has changed meanwhile.
func Take(ctx context.Context, o Options, use func(*store.Copy) error) error {
	s, err := open(o)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }() // it was only read
	at := s.copy.at
	if at.value == "" {
		return fmt.Errorf("etcd %v has no state with the prefix %s", o.Config.Endpoints, o.Prefix)
	}
	if err := use(s.copy.Copy); err != nil {
		return err
	}
	resp, err := s.client.Txn(ctx).If(s.isHead(at)).Then(clientv3.OpDelete(o.Prefix + headKey)).Commit()
	switch {
	case err != nil:
		return fmt.Errorf("delete the state in etcd: %w", err)
	case !resp.Succeeded:
		return errors.New("the state in etcd has changed meanwhile; stop its servers, delete what was written, and try again")
	}
	return s.clear(ctx)
}

// Write writes a state where there is none. If it is interrupted, servers refuse what there is until it is repeated.
func Write(ctx context.Context, o Options, from *store.Copy) error {
	client, err := newClient(o.Config)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }() // nothing is buffered
	s := &Store{options: o, client: client}
	first, cancel := context.WithTimeout(ctx, openLimit)
	defer cancel()
	at, err := s.readHead(first)
	if err != nil {
		return fmt.Errorf("write state to etcd %v: %w", o.Config.Endpoints, err)
	}
	if at.value != "" {
		return fmt.Errorf("write state to etcd %v, prefix %s: %w", o.Config.Endpoints, o.Prefix, errExists)
	}
	if err := s.clear(ctx); err != nil {
		return err
	}
	var pending []store.Write
	size := 0
	flush := func() error {
		for _, batch := range batchesOf(pending) {
			if err := s.ifNone(ctx, requests(o.Prefix, batch)); err != nil {
				return err
			}
		}
		pending, size = nil, 0
		return nil
	}
	err = from.Writes(func(w store.Write) error {
		pending, size = append(pending, w), size+len(w.Value)
		if len(pending) < batchOperations && size < batchBytes {
			return nil
		}
		return flush()
	})
	if err != nil {
		return err
	}
	if err := flush(); err != nil {
		return err
	}
	beginning := head{Commit: 1, ID: newID()}
	return s.ifNone(ctx, []clientv3.Op{clientv3.OpPut(o.Prefix+headKey, beginning.encode())})
}

// ifNone runs operations if there is no state.
func (s *Store) ifNone(ctx context.Context, operations []clientv3.Op) error {
	resp, err := s.client.Txn(ctx).If(s.isHead(position{})).Then(operations...).Commit()
	if err != nil {
		return fmt.Errorf("write state to etcd: %w", err)
	}
	if !resp.Succeeded {
		return errExists
	}
	return nil
}

// clear deletes what an interrupted Write has left.
func (s *Store) clear(ctx context.Context) error {
	for _, keys := range []string{dataKeys, largeKeys, stagedKeys, toldKeys} {
		if err := s.ifNone(ctx, []clientv3.Op{clientv3.OpDelete(s.options.Prefix+keys, clientv3.WithPrefix())}); err != nil {
			return err
		}
	}
	return nil
}
