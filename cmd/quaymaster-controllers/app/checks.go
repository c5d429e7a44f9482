package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/cloud-provider/names"
	netutils "k8s.io/utils/net"

	"quaymaster.dev/cmd/internal/connect"
	"quaymaster.dev/controllers/ingressnode"
	"quaymaster.dev/provider"
)

// checkFlags checks what can be decided from the flags alone.
func (r *controllers) checkFlags() []error {
	shared := r.manager.Options.KubeCloudShared
	errs := r.checkAudit()
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
		return fmt.Errorf("--secure-port: %w; stop the process that listens there or choose a different port", err)
	}
	if err != nil {
		return fmt.Errorf("--bind-address, --secure-port: %w", err)
	}
	return l.Close()
}
