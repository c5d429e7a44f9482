package api

import (
	"crypto/rand"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
)

const (
	// snapshotLife is how long the next pages of a list can be read.
	snapshotLife = 5 * time.Minute
	// snapshotsMax limits the number of lists that are read page by page at the same time.
	snapshotsMax = 256
)

// snapshots holds the lists that clients are reading page by page.
type snapshots struct {
	clock clock.PassiveClock

	mu   sync.Mutex
	byID map[string]snapshot
}

// snapshot is a list at a revision.
type snapshot struct {
	// items is a []T.
	items    any
	revision string
	// pageMax limits every page, whatever limit the client sets; 0 means no such limit.
	pageMax int
	expires time.Time
}

func newSnapshots(c clock.PassiveClock) *snapshots {
	return &snapshots{clock: c, byID: map[string]snapshot{}}
}

// keep stores a list and returns its id.
func (s *snapshots) keep(snap snapshot) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	oldest := ""
	for id, other := range s.byID {
		if !now.Before(other.expires) {
			delete(s.byID, id)
		} else if oldest == "" || other.expires.Before(s.byID[oldest].expires) {
			oldest = id
		}
	}
	if len(s.byID) >= snapshotsMax {
		delete(s.byID, oldest)
	}
	id := rand.Text()
	snap.expires = now.Add(snapshotLife)
	s.byID[id] = snap
	return id
}

func (s *snapshots) get(id string) (snapshot, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	snap, ok := s.byID[id]
	return snap, ok && s.clock.Now().Before(snap.expires)
}

// firstPage returns the first page of a list and keeps the list if there are more.
func firstPage[T any](s *snapshots, items []T, revision string, limit, pageMax int) cloudv1.List[T] {
	limit = bounded(limit, pageMax)
	if len(items) <= limit {
		return cloudv1.List[T]{Items: items, Revision: revision, Complete: true}
	}
	return page(s.keep(snapshot{items: items, revision: revision, pageMax: pageMax}), items, revision, 0, limit)
}

// nextPage returns the page of a token.
func nextPage[T any](s *snapshots, token string, limit int) (cloudv1.List[T], error) {
	id, offset, _ := strings.Cut(token, ".")
	n, err := strconv.Atoi(offset)
	snap, ok := s.get(id)
	items, fits := snap.items.([]T)
	if err != nil || !ok || !fits || n < 0 || n >= len(items) {
		return cloudv1.List[T]{}, fail(
			http.StatusGone, cloudv1.CodePageTokenExpired, "the page token has expired; list again from the first page",
		)
	}
	return page(id, items, snap.revision, n, bounded(limit, snap.pageMax)), nil
}

func bounded(limit, pageMax int) int {
	if pageMax > 0 {
		return min(limit, pageMax)
	}
	return limit
}

func page[T any](id string, items []T, revision string, offset, limit int) cloudv1.List[T] {
	end := min(offset+limit, len(items))
	l := cloudv1.List[T]{Items: items[offset:end], Revision: revision, Complete: end == len(items)}
	if !l.Complete {
		l.NextPageToken = id + "." + strconv.Itoa(end)
	}
	return l
}
