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
	// managed marks the Nodes that kwok answers for.
	managed = "kwok.x-k8s.io/node"
	// instanceState tells kwok how a Node should behave; stages.yaml reads it.
	instanceState = "dev.quaymaster.dev/instance-state"
	// followInterval is how soon a Node notices what became of its instance.
	followInterval = time.Second
)

//go:embed stages.yaml
var stages []byte

// startKwok runs kwok, which keeps the leases and the status of the pretended Nodes.
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

// kubelets registers a Node for every instance, as the kubelet on it would, and lets the Node's readiness follow it.
type kubelets struct {
	cloud *cloudapi.Client
	nodes client.Client
	out   io.Writer
	// known are the instances that have registered once. A Node that was removed stays away.
	known map[string]bool
}

func newKubelets(cloud *cloudapi.Client, nodes client.Client, out io.Writer) *kubelets {
	return &kubelets{cloud: cloud, nodes: nodes, out: out, known: map[string]bool{}}
}

// follow keeps Nodes and instances together until the context ends. A cloud or an API server that does not answer is
// asked again: kubelets outlive both.
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

// sync registers the Nodes of new instances and tells every Node the state of its instance.
func (k *kubelets) sync(ctx context.Context) error {
	instances, err := k.cloud.ListInstances(ctx, cloudapi.ListOptions{IncludeDeleted: true})
	if err != nil {
		return fmt.Errorf("follow the instances: %w", err)
	}
	var nodes corev1.NodeList
	if err := k.nodes.List(ctx, &nodes); err != nil {
		return fmt.Errorf("follow the instances: %w", err)
	}
	byName := make(map[string]*corev1.Node, len(nodes.Items))
	for i := range nodes.Items {
		byName[nodes.Items[i].Name] = &nodes.Items[i]
	}
	for _, instance := range instances.Items {
		node, registered := byName[instance.Hostname]
		if registered {
			k.known[instance.ID] = true
			err = k.tell(ctx, node, instance.State)
		} else if !k.known[instance.ID] && instance.State == cloudv1.InstanceRunning {
			err = k.register(ctx, instance)
		}
		if err != nil {
			return fmt.Errorf("follow instance %s: %w", instance.ID, err)
		}
	}
	return nil
}

// register creates the Node of an instance the way a kubelet with an external cloud provider does: without provider
// id and addresses, and closed to pods until the cloud-controller-manager has filled them in.
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

// tell writes the state of an instance to its Node, where it changed.
func (k *kubelets) tell(ctx context.Context, node *corev1.Node, state cloudv1.InstanceState) error {
	if node.Annotations[instanceState] == string(state) {
		return nil
	}
	patch := client.MergeFrom(node.DeepCopy())
	metav1.SetMetaDataAnnotation(&node.ObjectMeta, instanceState, string(state))
	// The Node may have been removed since it was listed.
	return client.IgnoreNotFound(k.nodes.Patch(ctx, node, patch))
}
