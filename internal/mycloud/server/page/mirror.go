package page

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/server/edges"
	"quaymaster.dev/internal/mycloud/server/store"
)

// mirror has a short form of all objects of a kind, so that a page need not decode all of them. It follows the log of
// changes, and is empty until a user looks.
type mirror[T, R any] struct {
	kind  store.Kind[T]
	short func(*T) R
	order func(a, b R) int

	mu       sync.Mutex
	revision string
	// at is when the snapshot of the revision was taken.
	at     time.Time
	byID   map[string]R
	sorted []R
}

func newMirror[T, R any](k store.Kind[T], short func(*T) R, order func(a, b R) int) *mirror[T, R] {
	return &mirror[T, R]{kind: k, short: short, order: order}
}

// all returns the objects of a snapshot, or a later one, in their order. Callers must not change them.
func (m *mirror[T, R]) all(tx *store.Tx) ([]R, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	err := m.follow(tx)
	return m.sorted, err
}

// some returns those of a snapshot, or a later one, that have some ids, by id.
func (m *mirror[T, R]) some(tx *store.Tx, ids ...string) (map[string]R, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	err := m.follow(tx)
	found := map[string]R{}
	for _, id := range ids {
		if r, ok := m.byID[id]; ok {
			found[id] = r
		}
	}
	return found, err
}

// follow requires the lock.
func (m *mirror[T, R]) follow(tx *store.Tx) (err error) {
	// Another request may have begun later and been faster. It must not make the mirror go back and forth.
	if m.byID != nil && before(tx, m.revision) && tx.Now.Sub(m.at) < mostBefore {
		return nil
	}
	m.at = tx.Now
	defer func() {
		if err != nil {
			m.revision, m.byID, m.sorted = "", nil, nil
		}
	}()
	if m.byID != nil && m.kind.UnchangedSince(tx, m.revision) {
		m.revision = tx.Revision()
		return nil
	}
	if m.byID == nil {
		return m.read(tx)
	}
	changes, err := tx.Changes(m.revision)
	if errors.Is(err, store.ErrUnknownRevision) {
		return m.read(tx)
	}
	if err != nil {
		return err
	}
	for c, err := range changes {
		if err != nil {
			return err
		}
		if c.Kind != m.kind.Name {
			continue
		}
		v, err := m.kind.Get(tx, c.ID)
		if _, none := errors.AsType[*store.NotFoundError](err); none {
			delete(m.byID, c.ID)
			continue
		}
		if err != nil {
			return err
		}
		m.byID[c.ID] = m.short(v)
	}
	m.sort(tx)
	return nil
}

// read reads all objects.
func (m *mirror[T, R]) read(tx *store.Tx) error {
	m.byID = map[string]R{}
	err := m.kind.Each(tx, func(v *T) error {
		m.byID[m.kind.Object(v).ID] = m.short(v)
		return nil
	})
	m.sort(tx)
	return err
}

func (m *mirror[T, R]) sort(tx *store.Tx) {
	// Others may still use the old one.
	m.revision, m.sorted = tx.Revision(), slices.SortedFunc(maps.Values(m.byID), m.order)
}

// mostBefore is how much later a snapshot may be and still count as an earlier one by its revision: a state that is restored
// while the server runs has an earlier revision, too.
const mostBefore = time.Second

// before reports whether a snapshot is an earlier one than that of a revision in the same history.
func before(tx *store.Tx, revision string) bool {
	n, history, _ := strings.Cut(tx.Revision(), ".")
	later, same, _ := strings.Cut(revision, ".")
	return history == same && edges.Number(n) < edges.Number(later)
}

// row is the short form of a load balancer.
type row struct {
	ID, Name  string
	Scheme    string
	State     cloudv1.ProvisioningState
	Addresses []string
	Listeners []string
	// Certificates are those of its listeners.
	Certificates []string
	// Groups are the node groups of its pools, and Members the number of members of their own.
	Groups   []string
	Members  int
	Revision uint64
	Changed  time.Time
	tags     string
}

func rowOf(lb *cloudv1.LoadBalancer) row {
	r := row{
		ID: lb.ID, Name: lb.Name, Scheme: lb.Scheme, State: lb.ProvisioningState, Addresses: lb.Addresses(),
		Revision: edges.Number(lb.Revision), Changed: lb.UpdatedAt,
	}
	for i := range lb.Listeners {
		l := &lb.Listeners[i]
		r.Listeners = append(r.Listeners, l.Key)
		if l.TLS != nil {
			r.Certificates = append(r.Certificates, l.TLS.CertificateIDs...)
		}
	}
	for i := range lb.Pools {
		p := &lb.Pools[i]
		r.Members += len(p.Members)
		if p.NodeGroupID != "" && !slices.Contains(r.Groups, p.NodeGroupID) {
			r.Groups = append(r.Groups, p.NodeGroupID)
		}
	}
	tags := make([]string, 0, len(lb.Tags))
	for k, v := range lb.Tags {
		tags = append(tags, k+":"+v)
	}
	slices.Sort(tags)
	r.tags = strings.Join(tags, "\n")
	return r
}

// matches reports whether a load balancer has all words in its name, id, addresses, listeners or tags.
func (r *row) matches(words []string) bool {
	return matches(words, append(slices.Concat(r.Addresses, r.Listeners), r.Name, r.ID, r.tags)...)
}

// matches reports whether texts have all words, which are in lower case.
func matches(words []string, texts ...string) bool {
	all := strings.ToLower(strings.Join(texts, "\n"))
	return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(all, w) })
}

func byName(a, b row) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
}

func latest(a, b cloudv1.Job) int {
	return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(edges.Number(b.Revision), edges.Number(a.Revision)), cmp.Compare(a.ID, b.ID))
}

// mostCharacters and mostWords limit a search: each word is looked for in each object.
const mostCharacters, mostWords = 200, 10

// words returns what is searched for.
func words(query string) ([]string, error) {
	if utf8.RuneCountInString(query) > mostCharacters {
		return nil, &refusal{http.StatusBadRequest, fmt.Sprintf("A search has at most %d characters.", mostCharacters)}
	}
	all := strings.Fields(strings.ToLower(query))
	if len(all) > mostWords {
		return nil, &refusal{http.StatusBadRequest, fmt.Sprintf("A search has at most %d words.", mostWords)}
	}
	return all, nil
}
