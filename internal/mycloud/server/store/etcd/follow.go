package etcd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"quaymaster.dev/internal/mycloud/server/store"
)

const (
	// pageKeys and pageParts are how many keys are read at a time, and listedKeys and listedParts how many are listed, for
	// which some versions of etcd read their values.
	pageKeys, pageParts     = 1000, 16
	listedKeys, listedParts = 10 * pageKeys, pageParts
	// reloadPause is how long to wait after the state could not be read.
	reloadPause = time.Second
	// watchWait is how long a watch may be late before another one replaces it.
	watchWait = time.Second
)

// errOtherHistory is returned if a commit does not follow the last one: etcd was restored.
var errOtherHistory = errors.New("the state was restored to an earlier one")

// load reads the state into a new copy.
func (s *Store) load(ctx context.Context) (*followed, error) {
	at, err := s.readHead(ctx)
	if err != nil {
		return nil, err
	}
	copied, err := store.NewCopy(s.options.Dir, s.options.Clock)
	if err != nil {
		return nil, err
	}
	c := &followed{Copy: copied, at: at}
	if err := s.fill(ctx, c); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// fill reads the state into a copy, as it was at the position of the copy.
func (s *Store) fill(ctx context.Context, c *followed) error {
	for keys, limits := range map[string]struct{ page, listed int }{dataKeys: {pageKeys, listedKeys}, largeKeys: {pageParts, listedParts}} {
		// A value may continue on the next page.
		var rest []operation
		from := s.options.Prefix + keys
		bounds, err := s.pages(ctx, from, clientv3.GetPrefixRangeEnd(from), limits.page, limits.listed, c.at.revision)
		if err != nil {
			return err
		}
		for i, to := range bounds {
			var resp *clientv3.GetResponse
			err := s.try(ctx, func(ctx context.Context) (err error) {
				resp, err = s.client.Get(ctx, from, clientv3.WithRange(to), clientv3.WithRev(c.at.revision))
				return err
			})
			if err != nil {
				return err
			}
			if len(resp.Kvs) > 0 && c.at.value == "" {
				return fmt.Errorf("prefix %s has the rest of a restore that was not completed; repeat it, or delete the keys",
					s.options.Prefix)
			}
			page := rest
			for _, kv := range resp.Kvs {
				page = append(page, operation{Key: kv.Key[len(s.options.Prefix):], Value: kv.Value})
			}
			from, rest = to, nil
			if keys == largeKeys && i < len(bounds)-1 {
				page, rest = cutLast(page)
			}
			writes, err := writesOf(page)
			if err != nil {
				return err
			}
			if err := c.Apply(writes); err != nil {
				return err
			}
		}
	}
	writes, err := s.readStaged(ctx, c.at)
	if err != nil {
		return err
	}
	return c.Apply(writes)
}

// pages returns the keys at which pages of that many keys of a range end. A request with a limit takes etcd longer the more
// keys the rest of its range has, because it counts them all; so there are few of these, and the pages themselves have ends.
func (s *Store) pages(ctx context.Context, from, end string, page, listed int, revision int64) ([]string, error) {
	var bounds []string
	for {
		var resp *clientv3.GetResponse
		err := s.try(ctx, func(ctx context.Context) (err error) {
			resp, err = s.client.Get(ctx, from, clientv3.WithRange(end), clientv3.WithKeysOnly(),
				clientv3.WithLimit(int64(listed)), clientv3.WithRev(revision))
			return err
		})
		if err != nil {
			return nil, err
		}
		for i := page; i < len(resp.Kvs); i += page {
			bounds = append(bounds, string(resp.Kvs[i].Key))
		}
		if !resp.More {
			return append(bounds, end), nil
		}
		from = string(resp.Kvs[len(resp.Kvs)-1].Key) + "\x00"
		bounds = append(bounds, from)
	}
}

// cutLast cuts the parts of the last value off.
func cutLast(parts []operation) (page, rest []operation) {
	valueOf := func(o operation) string { return string(o.Key[:max(0, len(o.Key)-9)]) }
	i := len(parts)
	for i > 0 && valueOf(parts[i-1]) == valueOf(parts[len(parts)-1]) {
		i--
	}
	return parts[:i], append([]operation{}, parts[i:]...)
}

// readHead reads the position of the state, with all that was committed before the call.
func (s *Store) readHead(ctx context.Context) (position, error) {
	var at position
	err := s.try(ctx, func(ctx context.Context) error {
		resp, err := s.client.Get(ctx, s.options.Prefix+headKey)
		if err != nil {
			return err
		}
		if len(resp.Kvs) > 0 {
			at.value = string(resp.Kvs[0].Value)
		}
		at.revision = resp.Header.Revision
		return nil
	})
	if err == nil && at.value != "" {
		at.head, err = decodeHead([]byte(at.value))
	}
	return at, err
}

// readStaged returns the writes of a commit that is staged, as of its position.
func (s *Store) readStaged(ctx context.Context, at position) ([]store.Write, error) {
	var all []operation
	for i := range at.head.Staged {
		batch, err := s.readBatch(ctx, at.head.staged(i), at.revision)
		if err != nil {
			return nil, err
		}
		if batch == nil {
			return nil, fmt.Errorf("batch %d of commit %d is missing", i, at.head.Commit)
		}
		all = append(all, batch...)
	}
	return writesOf(all)
}

// readBatch reads a staged batch as of a revision, 0 for the last one. It returns nil if there is none.
func (s *Store) readBatch(ctx context.Context, key string, revision int64) ([]operation, error) {
	var batch []operation
	err := s.try(ctx, func(ctx context.Context) error {
		resp, err := s.client.Get(ctx, s.options.Prefix+key, clientv3.WithRev(revision))
		if err != nil || len(resp.Kvs) == 0 {
			return err
		}
		return json.Unmarshal(resp.Kvs[0].Value, &batch)
	})
	return batch, err
}

// follow applies what is committed to the copy, and replaces it if that is impossible.
func (s *Store) follow() {
	for s.ctx.Err() == nil {
		err := s.watch()
		if s.ctx.Err() != nil {
			return
		}
		s.options.Logger.Warn("Reading the state again", "error", err)
		next, err := s.load(s.ctx)
		if err != nil {
			s.options.Logger.Error("Could not read the state", "error", err)
			s.pause(reloadPause)
			continue
		}
		s.replace(next)
	}
}

func (s *Store) pause(d time.Duration) {
	select {
	case <-s.ctx.Done():
	case <-time.After(d):
	}
}

// replace replaces the copy.
func (s *Store) replace(next *followed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.copy
	s.copy = next
	s.wake()
	s.background.Go(func() {
		last.users.Wait()
		_ = last.Close()
	})
}

// wake requires the lock.
func (s *Store) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// ask sends a request to the follower.
func (*Store) ask(what chan struct{}) {
	select {
	case what <- struct{}{}:
	default:
	}
}

// watch follows the state until that is impossible.
func (s *Store) watch() error {
	c, release := s.hold()
	defer release()
	// Requests for another copy were for the one before.
	select {
	case <-s.lost:
	default:
	}
	next := s.positionOf(c).revision + 1
	for s.ctx.Err() == nil {
		var err error
		if next, err = s.watchOnce(c, next); err != nil {
			return err
		}
		s.pause(retryPause)
	}
	return nil
}

// watchOnce follows the state from a revision of etcd on. It returns the next one when another watch may continue.
func (s *Store) watchOnce(c *followed, next int64) (int64, error) {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(s.ctx))
	defer cancel()
	watcher := clientv3.NewWatcher(s.client)
	defer func() { _ = watcher.Close() }()
	responses := watcher.Watch(ctx, s.options.Prefix+followedFrom, clientv3.WithRange(s.options.Prefix+followedTo),
		clientv3.WithRev(next), clientv3.WithProgressNotify())
	for {
		select {
		case resp, ok := <-responses:
			if resp.CompactRevision != 0 {
				return next, fmt.Errorf("changes after revision %d of etcd are compacted", next)
			}
			if !ok || resp.Err() != nil {
				return next, nil
			}
			for events := resp.Events; len(events) > 0; {
				n := 1
				for n < len(events) && events[n].Kv.ModRevision == events[0].Kv.ModRevision {
					n++
				}
				if err := s.apply(c, events[:n]); err != nil {
					return next, err
				}
				events = events[n:]
			}
			next = max(next, resp.Header.Revision+1)
		case <-s.again:
			// A restored etcd counts from an earlier revision, so that commits may come before what is watched.
			found, err := s.findHead(ctx)
			if err == nil && found.revision < next && found.value != s.positionOf(c).value {
				return next, errOtherHistory
			}
			return next, nil
		case <-s.lost:
			return next, errOtherHistory
		case <-s.ctx.Done():
			return next, nil
		}
	}
}

// apply applies the events of one revision of etcd.
func (s *Store) apply(c *followed, events []*clientv3.Event) error {
	at := s.positionOf(c)
	settling := at.head.Staged > 0
	at.revision = events[0].Kv.ModRevision
	var operations []operation
	committed := false
	for _, e := range events {
		key := strings.TrimPrefix(string(e.Kv.Key), s.options.Prefix)
		if key != headKey {
			operations = append(operations, operation{Key: []byte(key), Value: e.Kv.Value, Delete: e.Type == mvccpb.Event_DELETE})
			continue
		}
		if e.Type == mvccpb.Event_DELETE {
			return errors.New("the state was deleted")
		}
		was := at.head.ID
		var err error
		if at.head, err = decodeHead(e.Kv.Value); err != nil {
			return err
		}
		at.value = string(e.Kv.Value)
		if committed = at.head.ID != was; committed && at.head.After != was {
			return errOtherHistory
		}
	}
	writes, err := writesOf(operations)
	switch {
	case err != nil:
		return err
	case committed && at.head.Staged > 0:
		if writes, err = s.readStaged(s.ctx, at); err != nil {
			return err
		}
	case settling:
		// The copy has them.
		writes = nil
	}
	if len(writes) > 0 {
		if err := c.Apply(writes); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c.at = at
	if committed && strings.HasPrefix(at.head.ID, s.name+"-") {
		c.own = at.head.ID
	}
	s.wake()
	return nil
}

// reach waits until the copy has all changes up to a revision of etcd.
func (s *Store) reach(ctx context.Context, revision int64) error {
	var late *time.Ticker
	for {
		s.mu.Lock()
		at, changed := s.copy.at.revision, s.changed
		s.mu.Unlock()
		if at >= revision {
			return nil
		}
		if late == nil {
			late = time.NewTicker(watchWait)
			defer late.Stop() //nolint:gocritic // deferInLoop: once
		}
		select {
		case <-changed:
		case <-late.C:
			// A member that is cut off from the others does not say so at once.
			s.ask(s.again)
		case <-ctx.Done():
			return fmt.Errorf("%w: the copy of the state is late", store.ErrUnavailable)
		}
	}
}

// findHead returns the head as etcd has it, and the revision at which it was written.
func (s *Store) findHead(ctx context.Context) (found position, err error) {
	err = s.try(ctx, func(ctx context.Context) error {
		resp, err := s.client.Get(ctx, s.options.Prefix+headKey)
		if err == nil {
			found = positionIn(resp.Kvs)
		}
		return err
	})
	return found, err
}

func positionIn(kvs []*mvccpb.KeyValue) position {
	if len(kvs) == 0 {
		return position{}
	}
	return position{value: string(kvs[0].Value), revision: kvs[0].ModRevision}
}
