package read

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/server/api/access"
	"quaymaster.dev/internal/mycloud/server/api/failure"
)

const (
	// snapshotLife is how long the next pages of a list can be read.
	snapshotLife = 5 * time.Minute
	// snapshotBytes limits the size of the lists that are read page by page at the same time. The last one is kept
	// whatever its size.
	snapshotBytes = 256 << 20
	// pageBytes limits the size of pages. One object may exceed it, but not the limit of the store: clients read no responses
	// without limit.
	pageBytes = 8 << 20
)

// snapshots holds the lists that clients are reading page by page, the oldest first.
type snapshots struct {
	clock clock.PassiveClock
	max   int

	mu    sync.Mutex
	lists []*snapshot
	bytes int
	// owned has the size of the lists of each caller.
	owned map[access.Caller]int
}

// snapshot is a list at a revision.
type snapshot struct {
	id string
	// owner is the caller that reads the list.
	owner access.Caller
	// kind is the kind of the objects, items are the encoded objects.
	kind     string
	items    []json.RawMessage
	bytes    int
	revision string
	// pageMax limits every page, whatever limit the client sets; 0 means no such limit.
	pageMax int
	expires time.Time
}

func newSnapshots(c clock.PassiveClock, maxBytes int) *snapshots {
	return &snapshots{clock: c, max: maxBytes, owned: map[access.Caller]int{}}
}

// keep stores a list, in place of expired ones, and returns its id. If there is no room, it replaces the oldest ones of the
// caller whose lists take most of it: one that lists again and again must not end the lists of others.
func (s *snapshots) keep(snap *snapshot) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	snap.id, snap.expires = rand.Text(), now.Add(snapshotLife)
	for len(s.lists) > 0 && !now.Before(s.lists[0].expires) {
		s.drop(0)
	}
	s.owned[snap.owner] += snap.bytes
	for s.bytes+snap.bytes > s.max && len(s.lists) > 0 {
		s.drop(s.next())
	}
	s.lists = append(s.lists, snap)
	s.bytes += snap.bytes
	return snap.id
}

// next returns the index of the oldest list of the caller with most of those that are kept.
func (s *snapshots) next() int {
	found := 0
	for i, snap := range s.lists {
		if s.owned[snap.owner] > s.owned[s.lists[found].owner] {
			found = i
		}
	}
	return found
}

func (s *snapshots) drop(i int) {
	old := s.lists[i]
	s.bytes -= old.bytes
	if s.owned[old.owner] -= old.bytes; s.owned[old.owner] <= 0 {
		delete(s.owned, old.owner)
	}
	s.lists = slices.Delete(s.lists, i, i+1)
}

func (s *snapshots) get(id string) *snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, snap := range s.lists {
		if snap.id == id && s.clock.Now().Before(snap.expires) {
			return snap
		}
	}
	return nil
}

// firstPage returns the first page of a list and keeps the list if there are more.
func firstPage[T any](
	s *snapshots, owner access.Caller, kind string, items []T, revision string, limit, pageMax int,
) (cloudv1.List[T], error) {
	snap := &snapshot{owner: owner, kind: kind, items: make([]json.RawMessage, 0, len(items)), revision: revision, pageMax: pageMax}
	for i := range items {
		raw, err := json.Marshal(&items[i])
		if err != nil {
			return cloudv1.List[T]{}, fmt.Errorf("encode %s: %w", kind, err)
		}
		snap.items = append(snap.items, raw)
		snap.bytes += len(raw)
	}
	n := snap.fitting(0, limit)
	if n == len(items) {
		return cloudv1.List[T]{Items: items, Revision: revision, Complete: true}, nil
	}
	token := s.keep(snap) + "." + strconv.Itoa(n)
	return cloudv1.List[T]{Items: items[:n], Revision: revision, NextPageToken: token}, nil
}

// nextPage returns the page of a token.
func nextPage[T any](s *snapshots, kind, token string, limit int) (cloudv1.List[T], error) {
	id, offset, _ := strings.Cut(token, ".")
	n, err := strconv.Atoi(offset)
	snap := s.get(id)
	if err != nil || snap == nil || snap.kind != kind || n < 0 || n >= len(snap.items) {
		return cloudv1.List[T]{}, failure.New(
			http.StatusGone, cloudv1.CodePageTokenExpired, "the page token has expired; list again from the first page",
		)
	}
	end := n + snap.fitting(n, limit)
	l := cloudv1.List[T]{Items: make([]T, end-n), Revision: snap.revision, Complete: end == len(snap.items)}
	for i, raw := range snap.items[n:end] {
		if err := json.Unmarshal(raw, &l.Items[i]); err != nil {
			return l, fmt.Errorf("decode %s: %w", kind, err)
		}
	}
	if !l.Complete {
		l.NextPageToken = id + "." + strconv.Itoa(end)
	}
	return l, nil
}

// fitting returns how many objects the page has that begins with the one at start.
func (s *snapshot) fitting(start, limit int) int {
	if s.pageMax > 0 {
		limit = min(limit, s.pageMax)
	}
	n, size := 0, 0
	for _, item := range s.items[start:] {
		if size += len(item); n == limit || n > 0 && size > pageBytes {
			break
		}
		n++
	}
	return n
}
