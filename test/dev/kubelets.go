package main

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/cloudapi"
	"quaymaster.dev/test/env"
)

const (
	// managed marks the Nodes that kwok manages.
	managed = "kwok.x-k8s.io/node"
	// instanceState selects the stage in stages.yaml by which kwok simulates a Node.
	instanceState = "dev.quaymaster.dev/instance-state"
	// followInterval is how often Nodes are synchronized with their instances.
	followInterval = time.Second
)

//go:embed stages.yaml
var stages []byte

// startKwok runs kwok, which maintains the leases and the status of the simulated Nodes.
func startKwok(e *env.Env) error {
	path, err := env.Tool("kwok")
	if err != nil {
		return err
	}
	port, err := env.FreePort()
	if err != nil {
		return err
	}
	config := filepath.Join(e.Dir, "kwok-stages.yaml")
	if err := os.WriteFile(config, stages, 0o600); err != nil {
		return err
	}
	_, err = e.Start("kwok", path,
		"--kubeconfig="+e.AdminKubeconfig,
		"--config="+config,
		"--manage-nodes-with-annotation-selector="+managed+"=fake",
		"--node-lease-duration-seconds=40",
		"--server-address=127.0.0.1:"+strconv.Itoa(port),
	)
	return err
}

// kubelets registers a Node for every instance, as its kubelet would, and updates the Node's readiness with the
// instance's state.
type kubelets struct {
	cloud *cloudapi.Client
	nodes client.Client
	out   io.Writer
	// known holds the instances that have registered before. Their Nodes are not registered again after removal.
	known map[string]bool
}

func newKubelets(cloud *cloudapi.Client, nodes client.Client, out io.Writer) *kubelets {
	return &kubelets{cloud: cloud, nodes: nodes, out: out, known: map[string]bool{}}
}

// follow synchronizes Nodes with instances until the context ends. Failed calls to the cloud or the API server are
// retried: kubelets outlive both.
func (k *kubelets) follow(ctx context.Context) {
	ticker := time.NewTicker(followInterval)
	defer ticker.Stop()
	var last string
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		text := ""
		if err := k.sync(ctx); err != nil && ctx.Err() == nil {
			text = err.Error()
		}
		if text != "" && text != last {
			fmt.Fprintln(k.out, "…", text)
		}
		last = text
	}
}

// sync registers the Nodes of new instances and writes the state of each instance to its Node.
func (k *kubelets) sync(ctx context.Context) error {
	instances, err := k.cloud.ListInstances(ctx, cloudapi.ListOptions{IncludeDeleted: true})
	if err != nil {
		return fmt.Errorf("sync instances: %w", err)
	}
	var nodes corev1.NodeList
	if err := k.nodes.List(ctx, &nodes); err != nil {
		return fmt.Errorf("sync instances: %w", err)
	}
	byName := make(map[string]*corev1.Node, len(nodes.Items))
	for i := range nodes.Items {
		byName[nodes.Items[i].Name] = &nodes.Items[i]
	}
	for _, instance := range instances.Items {
		node, registered := byName[instance.Hostname]
		if registered {
			k.known[instance.ID] = true
			err = k.setState(ctx, node, instance.State)
		} else if !k.known[instance.ID] && instance.State == cloudv1.InstanceRunning {
			err = k.register(ctx, instance)
		}
		if err != nil {
			return fmt.Errorf("sync instance %s: %w", instance.ID, err)
		}
	}
	return nil
}

// register creates the Node of an instance like a kubelet with an external cloud provider: without provider ID and
// addresses, and with a taint that keeps pods away until the cloud-controller-manager has set them.
func (k *kubelets) register(ctx context.Context, instance cloudv1.Instance) error {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: instance.Hostname,
			Labels: map[string]string{
				corev1.LabelHostname:   instance.Hostname,
				corev1.LabelOSStable:   "linux",
				corev1.LabelArchStable: "amd64",
			},
			Annotations: map[string]string{managed: "fake", instanceState: string(instance.State)},
		},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{{
			Key: cloudproviderapi.TaintExternalCloudProvider, Value: "true", Effect: corev1.TaintEffectNoSchedule,
		}}},
	}
	if err := k.nodes.Create(ctx, node); err != nil {
		return err
	}
	k.known[instance.ID] = true
	return nil
}

// setState writes the state of an instance to its Node if it changed.
func (k *kubelets) setState(ctx context.Context, node *corev1.Node, state cloudv1.InstanceState) error {
	if node.Annotations[instanceState] == string(state) {
		return nil
	}
	patch := client.MergeFrom(node.DeepCopy())
	metav1.SetMetaDataAnnotation(&node.ObjectMeta, instanceState, string(state))
	// The Node may have been removed since it was listed.
	return client.IgnoreNotFound(k.nodes.Patch(ctx, node, patch))
}
