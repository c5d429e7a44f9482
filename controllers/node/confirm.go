package node

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"quaymaster.dev/controllers/machine"
	"quaymaster.dev/controllers/worker"
)

const (
	// confirmSettle batches Nodes that register together into one request.
	confirmSettle = time.Second
	// confirmBatch is the number of Nodes in a request.
	confirmBatch = 200
	// confirmAge is how long an answer of the cloud may be used to initialize a Node.
	confirmAge = 10 * time.Second
)

// confirmations are the answers of the cloud itself about the machines of Nodes that are to be initialized. The copy of
// the cloud may be stale, and what initialization writes, such as the provider ID, stays for good.
type confirmations struct {
	machines Machines
	clock    clock.PassiveClock
	queue    *worker.Queue[string]
	// answered is called with the name of a Node that has an answer.
	answered func(name string)

	mu      sync.Mutex
	waiting map[string]*corev1.Node
	answers map[string]confirmation
}

// confirmation is the answer about a Node; machine is nil if the cloud does not know its machine.
type confirmation struct {
	uid     types.UID
	machine *machine.Machine
	at      time.Time
}

// wholeBatch is the only item of the queue.
const wholeBatch = "batch"

func newConfirmations(o Options, answered func(string)) *confirmations {
	c := &confirmations{
		machines: o.Machines, clock: o.Clock, answered: answered,
		waiting: map[string]*corev1.Node{}, answers: map[string]confirmation{},
	}
	c.queue = worker.New(worker.Options[string]{
		Name: Name + "-machines", Workers: 1, RetryBase: retryBase, RetryMax: retryMax, Timeout: callTimeout, Process: c.ask,
		Clock: o.Clock,
	})
	return c
}

// get returns the answer about a Node. Without one, it asks the cloud, and reports false.
func (c *confirmations) get(node *corev1.Node) (*machine.Machine, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	answer, ok := c.answers[node.Name]
	if ok && answer.uid == node.UID && c.clock.Since(answer.at) < confirmAge {
		return answer.machine, true
	}
	c.waiting[node.Name] = node
	c.queue.AddAfter(wholeBatch, confirmSettle)
	return nil, false
}

// ask asks the cloud about a batch of the Nodes that wait.
func (c *confirmations) ask(ctx context.Context, _ string) worker.Result {
	c.mu.Lock()
	batch := make([]*corev1.Node, 0, min(len(c.waiting), confirmBatch))
	for _, node := range c.waiting {
		if len(batch) < confirmBatch {
			batch = append(batch, node)
		}
	}
	c.mu.Unlock()
	if len(batch) == 0 {
		return worker.Done()
	}
	found, err := c.machines.Current(ctx, batch)
	if err != nil {
		klog.FromContext(ctx).Error(fmt.Errorf("read the instances of new nodes: %w", err),
			"Could not initialize Nodes, will retry", "nodes", len(batch))
		return worker.Retry()
	}
	c.mu.Lock()
	for _, node := range batch {
		delete(c.waiting, node.Name)
		c.answers[node.Name] = confirmation{node.UID, found[node.Name], c.clock.Now()}
	}
	more := len(c.waiting) > 0
	c.mu.Unlock()
	for _, node := range batch {
		c.answered(node.Name)
	}
	if more {
		return worker.Again(confirmSettle)
	}
	return worker.Done()
}

// forget drops what is known about a Node that does not exist any more, or was initialized.
func (c *confirmations) forget(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiting, name)
	delete(c.answers, name)
}
