package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/cloud-provider/names"
	"k8s.io/klog/v2"
	netutils "k8s.io/utils/net"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/cmd/internal/connect"
	"quaymaster.dev/controllers/ingressnode"
	"quaymaster.dev/internal/cloudapi"
	"quaymaster.dev/provider"
	"quaymaster.dev/provider/ownership"
)

const (
	// firstCallTimeout limits the call that checks the token.
	firstCallTimeout = 10 * time.Second
	// apiServerWait is how long to wait for an API server that is still starting; it is polled every apiServerPoll.
	apiServerWait = 30 * time.Second
	apiServerPoll = time.Second
)

// checkFlags checks what can be decided from the flags alone.
func (r *controllers) checkFlags() []error {
	shared := r.manager.Options.KubeCloudShared
	var errs []error
	if err := r.manager.Validate(); err != nil {
		errs = append(errs, err)
	}
	if name := shared.CloudProvider.Name; name != provider.Name {
		errs = append(errs, fmt.Errorf("--cloud-provider must be %s; got %q", provider.Name, name))
	}
	if shared.CloudProvider.CloudConfigFile == "" {
		errs = append(errs, errors.New("--cloud-config is required: name the cloud config file, "+
			"or run with --without-cloud"))
	}
	for flag, field := range map[string]string{flagClass: "loadBalancerClass", flagDefaultClass: "defaultClass"} {
		if r.given(flag) {
			errs = append(errs, fmt.Errorf("--%s requires --%s; set %s in the cloud config instead",
				flag, flagWithoutCloud, field))
		}
	}
	if r.manager.RoutesEnabled() {
		if err := checkClusterCIDR(shared.ClusterCIDR); err != nil {
			errs = append(errs, fmt.Errorf("--cluster-cidr %w; set it to the pod CIDR, or disable routes with "+
				"--configure-cloud-routes=false", err))
		}
	}
	if r.manager.Enabled(names.ServiceLBController) && !r.manager.Enabled(ingressnode.Name) {
		errs = append(errs, fmt.Errorf("--controllers: %s requires %s: without it, load balancers have no nodes",
			names.ServiceLBController, ingressnode.Name))
	}
	return errs
}

func checkClusterCIDR(list string) error {
	if list == "" {
		return errors.New("is required while cloud routes are enabled")
	}
	cidrs, err := netutils.ParseCIDRs(strings.Split(list, ","))
	if err != nil {
		return fmt.Errorf("must be a CIDR such as 10.244.0.0/16: %w", err)
	}
	if dual, _ := netutils.IsDualStackCIDRs(cidrs); len(cidrs) > 2 || len(cidrs) == 2 && !dual {
		return fmt.Errorf("must be one CIDR, or one per IP family; got %q", list)
	}
	return nil
}

// checkConfig checks the cloud config against the flags and whether token and certificates can be read.
func (r *controllers) checkConfig() []error {
	shared := r.manager.Options.KubeCloudShared
	file := shared.CloudProvider.CloudConfigFile
	var errs []error
	if r.given("cluster-name") && shared.ClusterName != r.config.ClusterID {
		errs = append(errs, fmt.Errorf("--cluster-name must be unset or %q, the clusterID of cloud config %s; got %q",
			r.config.ClusterID, file, shared.ClusterName))
	}
	if r.stock && !r.config.DefaultClass {
		errs = append(errs, fmt.Errorf("cloud config %s: defaultClass must be true with --%s: the controllers of "+
			"k8s.io/cloud-provider serve Services without a class", file, flagStock))
	}
	if r.manager.RoutesEnabled() && r.config.Network.RouteTableID == "" {
		errs = append(errs, fmt.Errorf("cloud config %s: network.routeTableID is required while cloud routes are "+
			"enabled; set it, or disable routes with --configure-cloud-routes=false", file))
	}
	if _, err := r.config.TokenFile.Read(); err != nil {
		errs = append(errs, fmt.Errorf("cloud config %s: tokenFile: %w", file, err))
	}
	if _, err := connect.Cloud(r.config, "").TLS.Config(); err != nil {
		errs = append(errs, fmt.Errorf("cloud config %s: %w", file, err))
	}
	return errs
}

func (r *controllers) restConfig() (*rest.Config, error) {
	o := r.manager.Options
	if o.Master == "" {
		return connect.APIServer(o.Generic.ClientConnection.Kubeconfig)
	}
	cfg, err := clientcmd.BuildConfigFromFlags(o.Master, o.Generic.ClientConnection.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("--master, --kubeconfig: %w", err)
	}
	return cfg, nil
}

// checkAddress checks that health and metrics can be served. With shared ports only the operating system can decide.
func (r *controllers) checkAddress(ctx context.Context) error {
	address := r.manager.Address()
	if s := r.manager.Options.SecureServing; address == "" || s.PermitPortSharing || s.PermitAddressSharing {
		return nil
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("--secure-port: %w; stop the process that listens there or choose another port", err)
	}
	if err != nil {
		return fmt.Errorf("--bind-address, --secure-port: %w", err)
	}
	return l.Close()
}

// checkCloud checks the token and the capabilities of the cloud. A cloud that does not answer is only logged: Nodes are
// added and removed without it, and the controllers retry what fails.
func (r *controllers) checkCloud(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, firstCallTimeout)
	defer cancel()
	meta, err := r.cloud.Meta(ctx)
	if cloudapi.HasCode(err, cloudv1.CodeUnauthenticated) {
		return fmt.Errorf("tokenFile %s: the cloud at %s rejects the token; write a valid token to the file",
			r.config.TokenFile, r.config.Endpoint)
	}
	if err != nil {
		klog.FromContext(ctx).Error(err, "The cloud does not answer; continuing without it",
			"endpoint", r.config.Endpoint)
		return nil
	}
	if !slices.Contains(meta.Capabilities, cloudv1.CapabilityNodeGroups) {
		return fmt.Errorf("the cloud at %s does not support node groups, which load balancers require",
			r.config.Endpoint)
	}
	return nil
}

// checkCluster returns the cluster's UID, which requires an API server that answers and permissions that every controller
// needs.
func checkCluster(ctx context.Context, cluster *ownership.Cluster) (string, error) {
	var uid string
	var last error
	err := wait.PollUntilContextTimeout(ctx, apiServerPoll, apiServerWait, true,
		func(ctx context.Context) (bool, error) {
			uid, last = cluster.UID(ctx)
			switch {
			case last == nil:
				return true, nil
			case apierrors.IsUnauthorized(last):
				return false, fmt.Errorf("--kubeconfig: the API server rejects the credentials: %w", last)
			case apierrors.IsForbidden(last):
				return false, fmt.Errorf("the controllers' ServiceAccount lacks permissions: %w; "+
					"install the chart's roles and bindings", last)
			}
			klog.FromContext(ctx).Info("Waiting for the API server", "err", last)
			return false, nil
		})
	if wait.Interrupted(err) && last != nil && ctx.Err() == nil {
		return "", fmt.Errorf("--kubeconfig: the API server does not answer: %w", last)
	}
	return uid, err
}
