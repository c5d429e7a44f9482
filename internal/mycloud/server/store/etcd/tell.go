package etcd

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// toldKeys are followed by topic and subject of a message, whose first line is its sender.
const toldKeys = "told/"

// messageBytes limits a message.
const messageBytes = 64 << 20

// Tell implements store.Store.
func (s *Store) Tell(ctx context.Context, topic, subject string, message []byte) error {
	ctx, cancel := context.WithTimeout(ctx, attemptLimit)
	defer cancel()
	key := s.options.Prefix + toldKeys + topic + "/" + subject
	if message == nil {
		if _, err := s.client.Delete(ctx, key); err != nil {
			return fmt.Errorf("delete message about %s %s: %w", topic, subject, err)
		}
		return nil
	}
	var packed bytes.Buffer
	packed.WriteString(s.name + "\n")
	w := gzip.NewWriter(&packed)
	_, _ = w.Write(message) // a buffer accepts everything
	_ = w.Close()
	if _, err := s.client.Put(ctx, key, packed.String()); err != nil {
		return fmt.Errorf("tell %s %s: %w", topic, subject, err)
	}
	return nil
}

// Listen implements store.Store.
func (s *Store) Listen(ctx context.Context, topics []string, fn func(topic, subject string, message []byte, live bool)) {
	for ctx.Err() == nil {
		if err := s.listen(ctx, topics, fn); err != nil && ctx.Err() == nil {
			s.options.Logger.WarnContext(ctx, "Could not listen to other servers", "error", err)
		}
		s.pause(retryPause)
	}
}

func (s *Store) listen(ctx context.Context, topics []string, fn func(string, string, []byte, bool)) error {
	prefix := s.options.Prefix + toldKeys
	hear := func(kv *mvccpb.KeyValue, live bool) {
		topic, subject, _ := strings.Cut(string(kv.Key[len(prefix):]), "/")
		sender, packed, _ := bytes.Cut(kv.Value, []byte("\n"))
		if live && string(sender) == s.name || !slices.Contains(topics, topic) {
			return
		}
		r, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil {
			return
		}
		if message, err := io.ReadAll(io.LimitReader(r, messageBytes)); err == nil {
			fn(topic, subject, message, live)
		}
	}
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	kept, err := s.client.Get(ctx, prefix, clientv3.WithPrefix())
	if err != nil {
		return err
	}
	for _, kv := range kept.Kvs {
		hear(kv, false)
	}
	watcher := clientv3.NewWatcher(s.client)
	defer func() { _ = watcher.Close() }()
	for resp := range watcher.Watch(ctx, prefix, clientv3.WithPrefix(), clientv3.WithRev(kept.Header.Revision+1)) {
		if err := resp.Err(); err != nil {
			return err
		}
		for _, e := range resp.Events {
			if e.Type == mvccpb.Event_PUT {
				hear(e.Kv, true)
			}
		}
	}
	return nil
}
