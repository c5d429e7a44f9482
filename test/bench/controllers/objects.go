package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudproviderapi "k8s.io/cloud-provider/api"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
)

const (
	zone, machineType = "eu-1a", "m1.large"
	// podRange has room for the pods of all Nodes.
	podRange = "10.224.0.0/11"
	// images is how many images a kubelet reports, by default the largest 50 of its node.
	images = 50
	// beat is how often a kubelet reports an unchanged status.
	beat = 5 * time.Minute
	// growLimit bounds how long the controllers take for all new objects.
	growLimit = 15 * time.Minute
)

func nodeName(i int) string { return fmt.Sprintf("node-%d", i) }

func address(i int) string { return fmt.Sprintf("10.%d.%d.%d", 1+i/62500, i/250%250, 1+i%250) }

// addMachine creates the instance of a Node.
func (w *world) addMachine(ctx context.Context, i int) (string, error) {
	instance, err := w.cloud.CreateInstance(ctx, cloudv1.InstanceSpec{
		Hostname: nodeName(i), Type: machineType, Zone: zone,
		Addresses: []cloudv1.InstanceAddress{{Type: cloudv1.AddressInternal, Family: cloudv1.FamilyIPv4, Address: address(i)}},
	}, cloudapi.WriteOptions{IdempotencyKey: nodeName(i)})
	if err != nil {
		return "", err
	}
	return instance.ID, nil
}

// addNode creates a Node and its status as a kubelet does.
func (w *world) addNode(ctx context.Context, i int) error {
	pods := fmt.Sprintf("10.%d.%d.0/24", 224+i/256, i%256)
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: nodeName(i), Labels: map[string]string{
			corev1.LabelHostname: nodeName(i), corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
		}},
		Spec: corev1.NodeSpec{
			PodCIDR: pods, PodCIDRs: []string{pods},
			Taints: []corev1.Taint{{Key: cloudproviderapi.TaintExternalCloudProvider, Value: "true", Effect: corev1.TaintEffectNoSchedule}},
		},
	}
	if _, err := w.api.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		return err
	}
	return w.report(ctx, i, corev1.ConditionTrue)
}

// report writes the status of a Node.
func (w *world) report(ctx context.Context, i int, ready corev1.ConditionStatus) error {
	patch, err := json.Marshal(map[string]any{"status": status(i, ready)})
	if err != nil {
		return err
	}
	_, err = w.api.CoreV1().Nodes().Patch(ctx, nodeName(i), types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// status is as large as that of a real Node.
func status(i int, ready corev1.ConditionStatus) corev1.NodeStatus {
	now := metav1.Now()
	room := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"),
		corev1.ResourcePods: resource.MustParse("110"), corev1.ResourceEphemeralStorage: resource.MustParse("100Gi"),
	}
	s := corev1.NodeStatus{
		Capacity: room, Allocatable: room,
		Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address(i)}, {Type: corev1.NodeHostName, Address: nodeName(i)}},
		NodeInfo: corev1.NodeSystemInfo{
			MachineID: nodeName(i), SystemUUID: nodeName(i), BootID: nodeName(i), KernelVersion: "6.12.0", OSImage: "Debian GNU/Linux 13",
			ContainerRuntimeVersion: "containerd://2.1.0", KubeletVersion: "v1.36.3", OperatingSystem: "linux", Architecture: "amd64",
		},
		Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeReady, Status: ready, Reason: "KubeletReady", Message: "kubelet is posting ready status", LastHeartbeatTime: now, LastTransitionTime: now},
		},
	}
	for _, pressure := range []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure} {
		s.Conditions = append(s.Conditions, corev1.NodeCondition{
			Type: pressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficient", Message: "kubelet has no pressure",
			LastHeartbeatTime: now, LastTransitionTime: now,
		})
	}
	for n := range images {
		name := fmt.Sprintf("registry.example.com/team-%d/application-%d", n%7, n)
		s.Images = append(s.Images, corev1.ContainerImage{
			Names:     []string{fmt.Sprintf("%s@sha256:%064x", name, n), name + ":v1.2.3"},
			SizeBytes: int64(n) << 20,
		})
	}
	return s
}

// addService creates a Service with two ports.
func (w *world) addService(ctx context.Context, i int) error {
	_, err := w.api.CoreV1().Services(namespace).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: serviceName(i), Labels: map[string]string{"app": serviceName(i)}},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, Selector: map[string]string{"app": serviceName(i)},
			Ports: []corev1.ServicePort{{Name: "web", Port: 80}, {Name: "tls", Port: 443}},
		},
	}, metav1.CreateOptions{})
	return err
}

func serviceName(i int) string { return fmt.Sprintf("s%d", i) }

// grow adds Services and Nodes up to a number, and lets our controllers process them, faster than they usually do.
func (w *world) grow(ctx context.Context, services, nodes int) error {
	controllers, err := w.start(ctx, "--kube-api-qps=10000", "--kube-api-burst=10000", "--concurrent-node-syncs=32")
	if err != nil {
		return err
	}
	add := func(i int) error {
		if _, err := w.addMachine(ctx, i); err != nil {
			return err
		}
		return w.addNode(ctx, i)
	}
	if err := each(w.nodes+1, nodes, add); err != nil {
		return err
	}
	if err := each(w.services+1, services, func(i int) error { return w.addService(ctx, i) }); err != nil {
		return err
	}
	if w.nodes == 0 {
		// A second group, which has a Node and a Service.
		if err := errors.Join(w.patchNode(ctx, 1, "annotations", ingressNode, "edge"),
			w.annotate(ctx, 1, annotation+"ingress-group", "edge")); err != nil {
			return err
		}
	}
	w.services, w.nodes = max(w.services, services), max(w.nodes, nodes)
	for began := time.Now(); ; pause(ctx, time.Second) {
		err := w.settled(ctx)
		if err == nil {
			return controllers.Stop(stopWait)
		}
		if exit := controllers.Exit(); exit != nil || ctx.Err() != nil || time.Since(began) > growLimit {
			return errors.Join(fmt.Errorf("wait for the controllers' work: %w", err), exit)
		}
	}
}

// settled returns nil once the controllers have nothing to do: it looks at the objects only when the cloud is quiet.
func (w *world) settled(ctx context.Context) error {
	if _, quiet := w.counter.read(); quiet < 5*time.Second {
		return errors.New("the cloud is called")
	}
	var waiting []string
	services, err := w.api.CoreV1().Services(namespace).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return err
	}
	for i := range services.Items {
		if len(services.Items[i].Status.LoadBalancer.Ingress) == 0 {
			waiting = append(waiting, fmt.Sprintf("%s %+v", services.Items[i].Name, services.Items[i].Status))
		}
	}
	nodes, err := w.api.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return err
	}
	for i := range nodes.Items {
		if nodes.Items[i].Spec.ProviderID == "" {
			waiting = append(waiting, fmt.Sprintf("%s %+v", nodes.Items[i].Name, nodes.Items[i].Spec))
		}
	}
	if len(waiting) > 0 {
		return fmt.Errorf("%d objects wait, such as %s", len(waiting), waiting[0])
	}
	return nil
}

// annotate sets an annotation of a Service.
func (w *world) annotate(ctx context.Context, i int, key, value string) error {
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, key, value)
	_, err := w.api.CoreV1().Services(namespace).Patch(ctx, serviceName(i), types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

// patchNode changes the metadata of a Node.
func (w *world) patchNode(ctx context.Context, i int, field, key, value string) error {
	patch := fmt.Sprintf(`{"metadata":{%q:{%q:%q}}}`, field, key, value)
	_, err := w.api.CoreV1().Nodes().Patch(ctx, nodeName(i), types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

// beats reports the status of a number of Nodes as their kubelets do, until ctx ends.
func (w *world) beats(ctx context.Context, nodes int) {
	ticker := time.NewTicker(beat / time.Duration(nodes))
	defer ticker.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		patch := fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","lastHeartbeatTime":%q}]}}`, time.Now().UTC().Format(time.RFC3339))
		// A heartbeat that is lost makes no difference.
		_, _ = w.api.CoreV1().Nodes().Patch(ctx, nodeName(1+i%nodes), types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	}
}
