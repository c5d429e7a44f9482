package plan

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/controllers/ingressnode"
	"quaymaster.dev/internal/kube/brakes"
	"quaymaster.dev/internal/kube/policystore"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/provider/dlb"
	"quaymaster.dev/provider/holder"
	"quaymaster.dev/provider/mirror"
	"quaymaster.dev/provider/nodegroup"
)

// readTimeout limits how long the API server and the cloud are read.
const readTimeout = time.Minute

// state is what the controllers know when they start.
type state struct {
	nodes    coreinformers.NodeInformer
	services coreinformers.ServiceInformer
	policies *policystore.Store
	mirror   *mirror.Mirror
	brakes   *book
}

// read reads the cluster and the cloud. What it starts runs until ctx ends.
func (p *planner) read(ctx context.Context, running *sync.WaitGroup) (*state, error) {
	policies, err := policystore.NewClient(p.config)
	if err != nil {
		return nil, err
	}
	store := policystore.New(policystore.Options{API: policies, Cluster: p.api})
	recorded, err := p.readBrakes(ctx)
	if err != nil {
		return nil, err
	}
	shared := informers.NewSharedInformerFactory(p.api, 0)
	s := &state{
		nodes: shared.Core().V1().Nodes(), services: shared.Core().V1().Services(), policies: store, brakes: recorded,
		mirror: mirror.New(mirror.Options{Cloud: p.cloud, Cluster: p.cluster}),
	}
	synced := map[string]cache.InformerSynced{
		"the nodes": s.nodes.Informer().HasSynced, "the services": s.services.Informer().HasSynced,
		"the policies": store.HasSynced, "the cloud": s.mirror.Tried,
	}
	for _, run := range []func(context.Context){store.Run, s.mirror.Run, func(ctx context.Context) {
		shared.StartWithContext(ctx)
		<-ctx.Done()
		shared.Shutdown()
	}} {
		running.Go(func() { run(ctx) })
	}
	waiting, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	for what, done := range synced {
		if !cache.WaitForCacheSync(waiting.Done(), done) {
			return nil, fmt.Errorf("read %s: not finished after %s; check the rights of the user", what, readTimeout)
		}
	}
	if err := s.mirror.Err(); err != nil {
		return nil, err
	}
	return s, nil
}

// errReadOnly is the error of requests that a plan does not send.
var errReadOnly = errors.New("a plan writes nothing to the API server")

// readOnly wraps a transport so that it sends reads only.
func readOnly(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			if r.Body != nil {
				_ = r.Body.Close()
			}
			return nil, errReadOnly
		}
		return next.RoundTrip(r)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// book has the recorded brakes, in which the plan itself engages and releases them.
type book struct{ recorded *corev1.ConfigMap }

func (p *planner) readBrakes(ctx context.Context) (*book, error) {
	cm, err := p.api.CoreV1().ConfigMaps(p.Namespace).Get(ctx, brakes.ConfigMap, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		cm = &corev1.ConfigMap{}
	} else if err != nil {
		return nil, fmt.Errorf("read the brakes: %w", err)
	}
	return &book{recorded: cm}, nil
}

// Engaged implements the brakes of the controllers.
func (b *book) Engaged(name string) (message string, since time.Time, engaged bool) {
	return brakes.Engaged(b.recorded, name, time.Now())
}

// Resumed implements the brakes of the controllers.
func (b *book) Resumed(name string) bool { return brakes.Resumed(b.recorded, name, time.Now()) }

// Engage implements the brakes of the controllers.
func (b *book) Engage(_ context.Context, name, message string) error {
	return b.set(name, &brakes.Engagement{Since: time.Now(), Message: message})
}

// Release implements the brakes of the controllers.
func (b *book) Release(_ context.Context, name string) error { return b.set(name, nil) }

func (b *book) set(name string, engaged *brakes.Engagement) error {
	brake, err := brakes.Read(b.recorded, name)
	if err != nil {
		return err
	}
	brake.Engaged = engaged
	entry, err := brake.Encode()
	if err != nil {
		return err
	}
	if b.recorded.Data == nil {
		b.recorded.Data = map[string]string{}
	}
	b.recorded.Data[name] = entry
	return nil
}

// withheld returns why the controllers may not write to the cloud at all, or an empty string.
func (p *planner) withheld(ctx context.Context) (string, error) {
	uid, err := p.cluster.UID(ctx)
	if err != nil {
		return "", err
	}
	if err = p.cloud.Identify(ctx); err == nil {
		err = holder.New(holder.Options{
			Cloud: records{p.cloud}, ClusterUID: uid, ClusterID: p.Options.Config.ClusterID, Identity: p.Identity,
			Recorder: p.record,
		}).Withhold(ctx)
	}
	if refusal, refused := errors.AsType[*holder.RefusedError](err); refused {
		return refusal.Error(), nil
	}
	return "", unplanned(err)
}

// records lets a Holder read the record of the cluster's holder. That the controllers write it when they start is not
// part of a plan.
type records struct{ *cloudapi.Client }

// ClaimHolder implements holder.Records.
func (records) ClaimHolder(
	context.Context, string, cloudv1.ClusterHolderSpec, cloudapi.WriteOptions,
) (*cloudv1.ClusterHolder, error) {
	return nil, cloudapi.ErrPlanned
}

// groups finds the node groups that exist, and remembers those that Services ask for. The controllers sync the members
// of a group before a load balancer refers to it, which changes nothing of what they write to the load balancer.
type groups struct {
	cloud *nodegroup.Groups

	known map[string]ingressnode.Group
	names []string
}

var _ dlb.NodeGroups = (*groups)(nil)

// ID implements dlb.NodeGroups.
func (g *groups) ID(ctx context.Context, name string) (string, error) {
	if !slices.Contains(g.names, name) {
		g.names = append(g.names, name)
	}
	if g.known == nil {
		list, _, _, err := g.cloud.List(context.WithoutCancel(ctx), "")
		if err != nil {
			return "", fmt.Errorf("list node groups: %w", err)
		}
		g.known = map[string]ingressnode.Group{}
		for _, group := range list {
			g.known[group.Name] = group
		}
	}
	group, found := g.known[name]
	switch {
	case !found:
		return "", fmt.Errorf("node group %q does not exist yet; it is created first", name)
	case group.Err != nil:
		return "", group.Err
	}
	return group.ID, nil
}
