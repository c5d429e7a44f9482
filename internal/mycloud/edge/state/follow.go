package state

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
)

const (
	// hold is how long the cloud may hold a request for changes.
	hold = 55 * time.Second
	// retryBase and retryMax bound the delay after a failed request.
	retryBase, retryMax = 250 * time.Millisecond, 15 * time.Second
	// gap is the shortest time between answers without an error, after a burst: a cloud or a proxy that answers at once,
	// again and again, must not cost requests without end. Changes are seldom as frequent, and hardly wait for it.
	gap, burst = 100 * time.Millisecond, 100
	// keyPairLimit limits reading one key pair, keyPairsLimit reading several in a row: changes wait meanwhile.
	keyPairLimit, keyPairsLimit = time.Second, 2 * time.Second
	// keyPairRetry is the time until key pairs that could not be read are tried again.
	keyPairRetry = 2 * time.Second
)

// kinds are the kinds of objects that concern edges.
var kinds = []string{cloudv1.KindLoadBalancer, cloudv1.KindNodeGroup, cloudv1.KindEdge, cloudv1.KindCertificate}

// Cloud is the part of the cloud's API that Follow reads.
type Cloud interface {
	Meta(ctx context.Context) (*cloudv1.Meta, error)
	Changes(ctx context.Context, since string, kinds []string, wait time.Duration) (*cloudv1.Changes, error)
	ListLoadBalancers(ctx context.Context, o cloudapi.ListOptions) (*cloudv1.List[cloudv1.LoadBalancer], error)
	ListNodeGroups(ctx context.Context, o cloudapi.ListOptions) (*cloudv1.List[cloudv1.NodeGroup], error)
	ListEdges(ctx context.Context, o cloudapi.ListOptions) (*cloudv1.List[cloudv1.Edge], error)
	ListCertificates(ctx context.Context, o cloudapi.ListOptions) (*cloudv1.List[cloudv1.Certificate], error)
	KeyPair(ctx context.Context, id string) (*cloudv1.KeyPair, error)
}

// Follower follows the cloud.
type Follower struct {
	Cloud Cloud
	// Clock defaults to the real clock.
	Clock clock.Clock
	// OnState is called with every new state, in order.
	OnState func(*State)
	// Confirmed is the id of the cloud that an administrator has named; empty if none was. A state of another cloud is then
	// replaced, whatever it has.
	Confirmed string
	// OnError is called with the error of every request that failed, and with nil when one has succeeded after it.
	OnError func(error)

	// listed is true once everything was read, and asked once the cloud has been asked for changes.
	listed, asked bool
	// retry is when unread key pairs are tried again.
	retry time.Time
}

// Follow follows the cloud from a state, until the context ends.
func (f *Follower) Follow(ctx context.Context, s *State) {
	if f.Clock == nil {
		f.Clock = clock.RealClock{}
	}
	backoff := wait.Backoff{Duration: retryBase, Factor: 2, Jitter: 0.5, Steps: 10, Cap: retryMax}
	delay := backoff
	answers := rate.NewLimiter(rate.Every(gap), burst)
	for ctx.Err() == nil {
		next, err := f.step(ctx, s)
		if next != nil && next != s {
			s = next
			f.OnState(s)
		}
		if ctx.Err() != nil {
			return
		}
		f.OnError(err)
		var pause time.Duration
		// A key pair that cannot be read does not hold up what concerns others.
		if next != nil {
			delay = backoff
			now := f.Clock.Now()
			pause = answers.ReserveN(now, 1).DelayFrom(now)
		} else {
			pause = delay.Step()
		}
		if pause <= 0 {
			continue
		}
		select {
		case <-ctx.Done():
		case <-f.Clock.After(pause):
		}
	}
}

// step returns the state after the next changes, which may be incomplete if there is an error.
func (f *Follower) step(ctx context.Context, s *State) (*State, error) {
	// The revision of another cloud would have another meaning, and that of a former version may be one.
	if s.Revision == "" || s.Cloud == "" && !f.listed || f.Confirmed != "" && s.Cloud != f.Confirmed {
		return f.list(ctx, s)
	}
	held := hold
	if !f.asked {
		// A state that has been kept may be old, or still that of the cloud: it matters to know.
		held = 0
	} else if len(s.Unread) > 0 {
		held = min(hold, max(0, f.retry.Sub(f.Clock.Now())))
	}
	f.asked = true
	changes, err := f.Cloud.Changes(ctx, s.Revision, kinds, held)
	if cloudapi.HasCode(err, cloudv1.CodePageTokenExpired) {
		return f.list(ctx, s)
	}
	if err != nil {
		return nil, fmt.Errorf("follow the cloud: %w", err)
	}
	next, err := s.apply(changes)
	if err != nil {
		return nil, err
	}
	return next, f.readKeyPairs(ctx, next)
}

// list reads everything. An edge never believes a list that is not complete: it would stop load balancers that exist.
func (f *Follower) list(ctx context.Context, was *State) (*State, error) {
	// The revision is read first: what changes during the lists is then reported again.
	meta, err := f.Cloud.Meta(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the cloud's revision: %w", err)
	}
	if meta.Status != cloudv1.StatusOK {
		return nil, errors.New("list: the cloud reports that it may not know all its objects")
	}
	next := New()
	next.Cloud, next.Revision = meta.ID, meta.Revision
	if err := errors.Join(
		collect(ctx, f.Cloud.ListLoadBalancers, next.LoadBalancers), collect(ctx, f.Cloud.ListNodeGroups, next.NodeGroups),
		collect(ctx, f.Cloud.ListEdges, next.Edges),
	); err != nil {
		return nil, err
	}
	if moved := was.Cloud != "" && was.Cloud != next.Cloud && next.Cloud == f.Confirmed; !moved {
		if err := checkLosses(was, next); err != nil {
			return nil, err
		}
	}
	certificates := map[string]*cloudv1.Certificate{}
	if err := collect(ctx, f.Cloud.ListCertificates, certificates); err != nil {
		return nil, err
	}
	for id, c := range certificates {
		// Until it is read, a known one serves. Its revision may be one that a restored cloud uses for another.
		if known, ok := was.KeyPairs[id]; ok {
			next.KeyPairs[id] = known
		}
		next.Unread[id] = c.Revision
	}
	f.listed = true
	return next, f.readKeyPairs(ctx, next)
}

// checkLosses returns an error if most load balancers or node groups are missing from a list. Changes report each
// deletion; a list that lacks most of what was there is more likely that of a cloud that was restored from nothing, or of
// another cloud.
func checkLosses(was, next *State) error {
	return errors.Join(
		checkLoss("load balancers", was.LoadBalancers, next.LoadBalancers),
		checkLoss("node groups", was.NodeGroups, next.NodeGroups),
	)
}

func checkLoss[T any](kind string, was, next map[string]*T) error {
	missing := 0
	for id := range was {
		if next[id] == nil {
			missing++
		}
	}
	if missing < 2 || 2*missing <= len(was) {
		return nil
	}
	return fmt.Errorf(
		"list: the cloud lacks %d of %d %s, with which this edge goes on; if they were deleted, stop the edge, "+
			"delete its state file and start it again", missing, len(was), kind,
	)
}

func collect[T any, P interface {
	*T
	Metadata() *cloudv1.Object
}](
	ctx context.Context, list func(context.Context, cloudapi.ListOptions) (*cloudv1.List[T], error), into map[string]*T,
) error {
	found, err := list(ctx, cloudapi.ListOptions{})
	if err != nil {
		return fmt.Errorf("list: %w", err)
	}
	if !found.Complete {
		return errors.New("list: the cloud's list is not complete")
	}
	for i := range found.Items {
		object := &found.Items[i]
		into[P(object).Metadata().ID] = object
	}
	return nil
}

// readKeyPairs adds the unread key pairs to a state that is not in use yet. Those that cannot be read remain unread.
func (f *Follower) readKeyPairs(ctx context.Context, s *State) error {
	if len(s.Unread) == 0 || f.Clock.Now().Before(f.retry) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, keyPairsLimit)
	defer cancel()
	var failed []error
	// The order is random, so that those that take long hold up no others for good.
	for id, revision := range s.Unread {
		if ctx.Err() != nil {
			break
		}
		if err := f.readKeyPair(ctx, s, id, revision); err != nil {
			failed = append(failed, fmt.Errorf("read certificate %s: %w", id, err))
		}
	}
	if f.retry = (time.Time{}); len(s.Unread) > 0 {
		f.retry = f.Clock.Now().Add(keyPairRetry)
	}
	return errors.Join(failed...)
}

func (f *Follower) readKeyPair(ctx context.Context, s *State, id, revision string) error {
	ctx, cancel := context.WithTimeout(ctx, keyPairLimit)
	defer cancel()
	pair, err := f.Cloud.KeyPair(ctx, id)
	switch {
	case cloudapi.IsNotFound(err):
		delete(s.KeyPairs, id)
	case err != nil:
		return err
	default:
		s.KeyPairs[id] = CertificateWithKeyPair{Revision: revision, KeyPair: *pair}
	}
	delete(s.Unread, id)
	return nil
}
