package app

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	ccmapp "k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/names"

	"quaymaster.dev/controllers/node"
	"quaymaster.dev/controllers/nodelifecycle"
)

// addNodes adds the controllers of Nodes, which have the flags and the account of those that they replace.
func (a *assembler) addNodes() error {
	account := ccmapp.DefaultInitFuncConstructors[names.CloudNodeController].InitContext.ClientName
	client := func() kubernetes.Interface { return a.completed.ClientBuilder.ClientOrDie(account) }
	initializer, err := node.New(node.Options{
		Nodes: a.core.Nodes(), Client: client, Recorder: recorder(node.Name), Machines: a.machines,
		Workers: int(a.completed.ComponentConfig.NodeController.ConcurrentNodeSyncs),
		Period:  a.completed.ComponentConfig.NodeStatusUpdateFrequency.Duration,
	})
	if err != nil {
		return err
	}
	lifecycle, err := nodelifecycle.New(nodelifecycle.Options{
		Nodes: a.core.Nodes(), Client: client, Recorder: recorder(nodelifecycle.Name), Machines: a.machines, Brakes: a.book,
	})
	if err != nil {
		return err
	}
	a.assembly.Run[node.Name], a.assembly.Run[nodelifecycle.Name] = initializer.Run, lifecycle.Run
	return register(initializer.Metrics(), lifecycle)
}

// recorder returns a function that creates a recorder of Events, which it writes with the rights of the client until
// the context ends.
func recorder(component string) func(context.Context, kubernetes.Interface) record.EventRecorder {
	return func(ctx context.Context, client kubernetes.Interface) record.EventRecorder {
		broadcaster := record.NewBroadcaster(record.WithContext(ctx))
		broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
		context.AfterFunc(ctx, broadcaster.Shutdown)
		return broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: component})
	}
}
