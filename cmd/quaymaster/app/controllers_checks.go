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
	"quaymaster.dev/controllers/ingressnode"
	"quaymaster.dev/internal/cloudapi"
	"quaymaster.dev/provider"
	"quaymaster.dev/provider/ownership"
)

const (
	// cloudTimeout bounds one call of the cloud. The cloud may hold a question about a job for half of it.
	cloudTimeout = time.Minute
	// firstCallTimeout bounds the call that tries the token.
	firstCallTimeout = 10 * time.Second
	// apiServerWait is how long to wait for an API server that starts at the same time, asking every apiServerPoll.
	apiServerWait = 30 * time.Second
	apiServerPoll = time.Second
)

// checkFlags checks what can be told from the flags alone.
func (r *controllers) checkFlags() []error {
	shared := r.manager.Options.KubeCloudShared
	var errs []error
	if err := r.manager.Validate(); err != nil {
		errs = append(errs, err)
	}
	if name := shared.CloudProvider.Name; name != provider.Name {
		errs = append(errs, fmt.Errorf("--cloud-provider: must be %s, not %q", provider.Name, name))
	}
	if shared.CloudProvider.CloudConfigFile == "" {
		errs = append(errs, errors.New("--cloud-config: must name the cloud config file, or run --without-cloud"))
	}
	if r.given(flagClass) {
		errs = append(errs, fmt.Errorf("--%s: must be loadBalancerClass in the cloud config, except --%s", flagClass, flagWithoutCloud))
	}
	if r.manager.RoutesEnabled() {
		if err := checkClusterCIDR(shared.ClusterCIDR); err != nil {
			errs = append(errs, fmt.Errorf("--cluster-cidr: %w, or switch routes off with --configure-cloud-routes=false", err))
		}
	}
	if r.manager.Enabled(names.ServiceLBController) && !r.manager.Enabled(ingressnode.Name) {
		errs = append(errs, fmt.Errorf("--controllers: %s needs %s: load balancers have no nodes without it", names.ServiceLBController, ingressnode.Name))
	}
	return errs
}

// joinLine is errors.Join in one line.
func joinLine(errs []error) error {
	texts := make([]string, len(errs))
	for i, err := range errs {
		texts[i] = err.Error()
	}
	return errors.New(strings.Join(texts, "; "))
}

func checkClusterCIDR(list string) error {
	if list == "" {
		return errors.New("must be the pods' range while the cloud's routes are configured")
	}
	cidrs, err := netutils.ParseCIDRs(strings.Split(list, ","))
	if err != nil {
		return fmt.Errorf("must be a range such as 10.244.0.0/16: %w", err)
	}
	if dual, _ := netutils.IsDualStackCIDRs(cidrs); len(cidrs) > 2 || len(cidrs) == 2 && !dual {
		return fmt.Errorf("must be one range, or one of each IP family; got %q", list)
	}
	return nil
}

// checkConfig checks the cloud config against the flags, and reads the token once.
func (r *controllers) checkConfig() []error {
	shared := r.manager.Options.KubeCloudShared
	file := shared.CloudProvider.CloudConfigFile
	var errs []error
	if r.given("cluster-name") && shared.ClusterName != r.config.ClusterID {
		errs = append(errs, fmt.Errorf("--cluster-name: must be the clusterID %q of cloud config %s, or unset; got %q",
			r.config.ClusterID, file, shared.ClusterName))
	}
	if r.manager.RoutesEnabled() && r.config.Network.RouteTableID == "" {
		errs = append(errs, fmt.Errorf("cloud config %s: network.routeTableID: required while the cloud's routes are configured; "+
			"set it, or switch routes off with --configure-cloud-routes=false", file))
	}
	if _, err := r.config.TokenFile.Read(); err != nil {
		errs = append(errs, fmt.Errorf("cloud config %s: tokenFile: %w", file, err))
	}
	return errs
}

func (r *controllers) restConfig() (*rest.Config, error) {
	o := r.manager.Options
	if o.Master == "" {
		return restConfig(o.Generic.ClientConnection.Kubeconfig)
	}
	cfg, err := clientcmd.BuildConfigFromFlags(o.Master, o.Generic.ClientConnection.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("--master, --kubeconfig: %w", err)
	}
	return cfg, nil
}

// checkAddress makes sure that health and metrics can be served. With shared ports it is for the system to say.
func (r *controllers) checkAddress(ctx context.Context) error {
	address := r.manager.Address()
	if s := r.manager.Options.SecureServing; address == "" || s.PermitPortSharing || s.PermitAddressSharing {
		return nil
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("--secure-port: %w; stop what listens there or choose another port", err)
	}
	if err != nil {
		return fmt.Errorf("--bind-address, --secure-port: %w", err)
	}
	return l.Close()
}

// checkCloud tries token and capabilities. A cloud that does not answer is no reason to stop: Nodes come and go without
// it, and the controllers repeat what fails.
func (r *controllers) checkCloud(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, firstCallTimeout)
	defer cancel()
	meta, err := r.cloud.Meta(ctx)
	if cloudapi.HasCode(err, cloudv1.CodeUnauthenticated) {
		return fmt.Errorf("tokenFile %s: the cloud at %s refuses the token; put a valid one into the file", r.config.TokenFile, r.config.Endpoint)
	}
	if err != nil {
		klog.FromContext(ctx).Error(err, "The cloud does not answer, going on without it for now", "endpoint", r.config.Endpoint)
		return nil
	}
	if !slices.Contains(meta.Capabilities, cloudv1.CapabilityNodeGroups) {
		return fmt.Errorf("the cloud at %s has no node groups, which load balancers need", r.config.Endpoint)
	}
	return nil
}

// checkCluster identifies the cluster, which takes an API server that answers and rights that every controller needs.
func checkCluster(ctx context.Context, cluster *ownership.Cluster) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, apiServerPoll, apiServerWait, true, func(ctx context.Context) (bool, error) {
		_, last = cluster.UID(ctx)
		switch {
		case last == nil:
			return true, nil
		case apierrors.IsUnauthorized(last):
			return false, fmt.Errorf("--kubeconfig: the API server refuses its credentials: %w", last)
		case apierrors.IsForbidden(last):
			return false, fmt.Errorf("the rights of the controllers' ServiceAccount are missing: %w; install them with the chart", last)
		}
		klog.FromContext(ctx).Info("The API server does not answer yet", "err", last)
		return false, nil
	})
	if wait.Interrupted(err) && last != nil && ctx.Err() == nil {
		return fmt.Errorf("--kubeconfig: the API server does not answer: %w", last)
	}
	return err
}
