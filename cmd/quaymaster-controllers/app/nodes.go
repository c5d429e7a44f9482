package app

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	ccmapp "k8s.io/cloud-provider/app"
	ccmconfig "k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/names"

	"quaymaster.dev/controllers/brake"
	"quaymaster.dev/controllers/node"
	"quaymaster.dev/controllers/nodelifecycle"
	"quaymaster.dev/provider/machines"
)

// newNodes creates the controllers of Nodes, which have the flags and the account of those that they replace.
func (r *controllers) newNodes(
	completed *ccmconfig.CompletedConfig, found *machines.Machines, book *brake.Book,
) (*node.Controller, *nodelifecycle.Controller, error) {
	account := ccmapp.DefaultInitFuncConstructors[names.CloudNodeController].InitContext.ClientName
	client := func() kubernetes.Interface { return completed.ClientBuilder.ClientOrDie(account) }
	initializer, err := node.New(node.Options{
		Nodes: completed.SharedInformers.Core().V1().Nodes(), Client: client, Recorder: recorder(node.Name), Machines: found,
		Workers: int(completed.ComponentConfig.NodeController.ConcurrentNodeSyncs),
		Period:  completed.ComponentConfig.NodeStatusUpdateFrequency.Duration,
	})
	if err != nil {
		return nil, nil, err
	}
	lifecycle, err := nodelifecycle.New(nodelifecycle.Options{
		Nodes: completed.SharedInformers.Core().V1().Nodes(), Client: client, Recorder: recorder(nodelifecycle.Name),
		Machines: found, Brakes: book,
	})
	return initializer, lifecycle, err
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
