package main

import (
	"context"

	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	cloudnodelifecycle "k8s.io/cloud-provider/controllers/nodelifecycle"
	"k8s.io/component-base/metrics/prometheus/controllers"

	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/provider/providerid"
	"quaymaster.dev/test/bench/admission/results"
	"quaymaster.dev/test/harness/plain"
)

const (
	// unready is the number of Nodes that are not ready while the cloud gives false answers for lying.
	unready = 200
	lying   = time.Minute
	// goneBound is how long the deletion of a Node is waited for.
	goneBound = 10 * time.Minute
	// lostPeriod is how often the controller of k8s.io/cloud-provider looks at Nodes, which is its default.
	lostPeriod = 5 * time.Second
)

// lies makes the cloud answer 5 % of the requests about instances with the false claim that there is none, and the others
// with the delay of a real cloud.
const lies = `{"seed": 1, "rules": [
	{"route": "/v1/instances*", "fault": "not-found", "probability": 0.05},
	{"route": "/v1/instances*", "delay": "20ms"}
]}`

// demonstrate counts the Nodes that are deleted although their instances exist, by our controllers and by those of
// k8s.io/cloud-provider over a provider that passes answers on. It runs in a cluster of its own.
func (b *bench) demonstrate(ctx context.Context) (err error) {
	w, err := open(ctx, "demonstration")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	w.nodes = unready
	ids := make([]string, unready+1)
	if err := each(1, unready, func(i int) (err error) {
		ids[i], err = w.addMachine(ctx, i)
		return err
	}); err != nil {
		return err
	}
	lost, gone, err := w.runOurs(ctx, ids)
	if err != nil {
		return err
	}
	b.progress("demonstration: ours lost %d, a deleted instance's Node was gone after %s", lost, gone)
	results.Write(b.out, "FalseAnswers/controllers="+ours, 1, results.Value{Number: float64(lost), Unit: "lost-nodes"},
		results.Seconds(gone, "gone-sec"))
	if lost, err = w.runPlain(ctx, ids); err != nil {
		return err
	}
	b.progress("demonstration: the stock controller over a plain provider lost %d", lost)
	results.Write(b.out, "FalseAnswers/controllers="+stock, 1, results.Value{Number: float64(lost), Unit: "lost-nodes"})
	return nil
}

func (w *world) runOurs(ctx context.Context, ids []string) (lost int, gone time.Duration, err error) {
	if err := w.restore(ctx, ids); err != nil {
		return 0, 0, err
	}
	ours, err := w.start(ctx, "--configure-cloud-routes=false")
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, ours.Stop(stopWait)) }()
	if lost, err = w.lie(ctx); err != nil {
		return lost, 0, err
	}
	const victim = 7
	if _, err := w.cloud.DeleteInstance(ctx, ids[victim], cloudapi.WriteOptions{}); err != nil {
		return lost, 0, err
	}
	ids[victim] = ""
	for began := time.Now(); time.Since(began) < goneBound && ctx.Err() == nil; pause(ctx, time.Second) {
		if _, err := w.api.CoreV1().Nodes().Get(ctx, nodeName(victim), metav1.GetOptions{}); apierrors.IsNotFound(err) {
			return lost, time.Since(began).Round(time.Second), nil
		}
	}
	return lost, 0, fmt.Errorf("the Node of a deleted instance still exists after %s", goneBound)
}

// runPlain runs the controller of k8s.io/cloud-provider in this process.
func (w *world) runPlain(ctx context.Context, ids []string) (int, error) {
	if err := w.restore(ctx, ids); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	factory := informers.NewSharedInformerFactory(w.api, 0)
	nodes := factory.Core().V1().Nodes()
	nodes.Informer()
	c, err := cloudnodelifecycle.NewCloudNodeLifecycleController(nodes, w.api, plain.Provider{Cloud: w.cloud}, lostPeriod, 1)
	if err != nil {
		return 0, err
	}
	factory.StartWithContext(ctx)
	factory.WaitForCacheSync(ctx.Done())
	running.Go(func() { c.Run(ctx, controllers.NewControllerManagerMetrics("demonstration")) })
	return w.lie(ctx)
}

// restore creates the Nodes of instances that do not exist, as ones that are initialized and have stopped to report.
func (w *world) restore(ctx context.Context, ids []string) error {
	return each(1, unready, func(i int) error {
		if ids[i] == "" {
			return nil
		}
		_, err := w.api.CoreV1().Nodes().Create(ctx, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: nodeName(i)}, Spec: corev1.NodeSpec{ProviderID: providerid.Format(ids[i])},
		}, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		if err != nil {
			return err
		}
		return w.report(ctx, i, corev1.ConditionUnknown)
	})
}

// lie makes the cloud give false answers for a while and returns how many Nodes are lost. Nodes of instances that are
// really deleted do not count.
func (w *world) lie(ctx context.Context) (int, error) {
	before, err := w.nodesLeft(ctx)
	if err != nil {
		return 0, err
	}
	if err := w.faults(ctx, lies); err != nil {
		return 0, err
	}
	pause(ctx, lying)
	after, err := w.nodesLeft(ctx)
	return before - after, errors.Join(err, w.faults(ctx, `{"rules": []}`))
}

func (w *world) nodesLeft(ctx context.Context) (int, error) {
	list, err := w.api.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	return len(list.Items), nil
}

// faults replaces the cloud's plan of faults.
func (w *world) faults(ctx context.Context, plan string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPut, w.mycloud.Endpoint+"/admin/faults", strings.NewReader(plan))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+w.mycloud.Token)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("set the plan of faults: %s", response.Status)
	}
	return nil
}
