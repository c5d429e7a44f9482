// The judge of catalog aws-lbc: the model builder of the AWS Load Balancer Controller, with its own resolvers of subnets
// and security groups, against a simulated EC2 API.
package main

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"quaymaster.dev/tools/vendors/judge"
	"sigs.k8s.io/aws-load-balancer-controller/v3/pkg/annotations"
	"sigs.k8s.io/aws-load-balancer-controller/v3/pkg/config"
	"sigs.k8s.io/aws-load-balancer-controller/v3/pkg/deploy/tracking"
	"sigs.k8s.io/aws-load-balancer-controller/v3/pkg/metrics/lbc"
	"sigs.k8s.io/aws-load-balancer-controller/v3/pkg/networking"
	"sigs.k8s.io/aws-load-balancer-controller/v3/pkg/service"
)

// What the controller uses unless its flags say otherwise, see pkg/config/controller_config.go.
const (
	class     = "service.k8s.aws/nlb"
	autoMode  = "eks.amazonaws.com/nlb" // EKS Auto Mode
	sslPolicy = "ELBSecurityPolicy-2016-08"
	target    = "instance"
	internal  = "internal"
	vpc       = "vpc-0"
	cluster   = "cluster"
	prefix    = "service.beta.kubernetes.io"
)

func main() {
	cloud := &cloud{}
	controllers := map[string]controller{class: assemble(cloud, class), autoMode: assemble(cloud, autoMode)}
	judge.Main(judge.Description{
		Vendor: "aws-lbc",
		Module: "sigs.k8s.io/aws-load-balancer-controller/v3",
		Covers: "the model builder for Services (pkg/service) with the default flags, for a new load balancer, " +
			"against a simulated EC2 API",
		NotCovered: []string{
			"which subnets, security groups, addresses and other Services exist: all that are named do, each subnet in its own zone",
			"what the AWS API refuses in a model, for example attributes with unknown values",
			"changes of a load balancer that exists, and its deletion",
		},
	}, func(s *corev1.Service) judge.Verdict {
		if s.Spec.LoadBalancerClass == nil && ours(s) {
			// The controller's webhook for Services does so when a Service is created.
			s.Spec.LoadBalancerClass = new(string)
			*s.Spec.LoadBalancerClass = class
		}
		c, found := controllers[ptr.Deref(s.Spec.LoadBalancerClass, class)]
		if !found || s.Spec.Type != corev1.ServiceTypeLoadBalancer || !c.utils.IsServiceSupported(s) {
			return judge.Skip("neither the class nor the annotations are for this controller")
		}
		cloud.serve(s)
		_, _, _, err := c.builder.Build(context.Background(), s, lbc.NewMockCollector())
		return judge.Refuse(err)
	})
}

// ours reports whether a Service without a class is meant for this controller, because its type says so or it has an
// annotation that the AWS cloud provider does not read.
func ours(s *corev1.Service) bool {
	switch s.Annotations[prefix+"/"+annotations.SvcLBSuffixLoadBalancerType] {
	case "", "nlb", "clb":
	default:
		return true
	}
	for key, value := range s.Annotations {
		suffix, found := strings.CutPrefix(key, prefix+"/")
		if !found || value == "" && (suffix == annotations.SvcLBSuffixLoadBalancerName || suffix == annotations.SvcLBSuffixEnableIcmpForPathMtuDiscovery) {
			continue
		}
		if slices.Contains(only, suffix) || ofPorts.MatchString(suffix) {
			return true
		}
	}
	return false
}

// ofPorts matches annotations of ports that the AWS cloud provider does not read.
var ofPorts = regexp.MustCompile(`^(((actions|` + annotations.SvcLBSuffixlsAttsAnnotationPrefix + `)\..+-)|` +
	annotations.SvcLBSuffixTargetGroupAttributes + `\.)[0-9]+$`)

// only are annotations that the AWS cloud provider does not read.
var only = []string{
	annotations.SvcLBSuffixLoadBalancerName, annotations.SvcLBSuffixScheme, annotations.SvcLBSuffixTargetType,
	annotations.SvcLBSuffixProxyProtocolPerTargetGroup, annotations.SvcLBSuffixIPAddressType, annotations.SvcLBSuffixHCSuccessCodes,
	annotations.SvcLBSuffixIpv6Addresses, annotations.SvcLBSuffixALPNPolicy, annotations.SvcLBSuffixLoadBalancerAttributes,
	annotations.SvcLBSuffixManageSGRules, annotations.SvcLBSuffixEnforceSGInboundRulesOnPrivateLinkTraffic,
	annotations.SvcLBSuffixSecurityGroupPrefixLists, annotations.SvcLBSuffixMultiClusterTargetGroup,
	annotations.SvcLBSuffixEnablePrefixForIpv6SourceNat, annotations.SvcLBSuffixSourceNatIpv6Prefixes,
	annotations.SvcLBSuffixLoadBalancerCapacityReservation, annotations.SvcLBSuffixEnableIcmpForPathMtuDiscovery,
	annotations.SvcLBSuffixEnableTCPUDPListener, annotations.SvcLBSuffixDisableNLBSG, annotations.SvcLBSuffixQUICEnabledPorts,
}

// controller is the controller as its flags configure it for one class.
type controller struct {
	builder service.ModelBuilder
	utils   service.ServiceUtils
}

func assemble(cloud *cloud, class string) controller {
	parser, gates, log := annotations.NewSuffixAnnotationParser(prefix), config.NewFeatureGates(), logr.Discard()
	utils := service.NewServiceUtils(parser, "service.k8s.aws/resources", class, gates)
	subnets := networking.NewDefaultSubnetsResolver(networking.NewDefaultAZInfoProvider(cloud, log), cloud, vpc, cluster,
		gates.Enabled(config.SubnetsClusterTagCheck), gates.Enabled(config.ALBSingleSubnet),
		gates.Enabled(config.SubnetDiscoveryByReachability), log)
	return controller{utils: utils, builder: service.NewDefaultModelBuilder(parser, subnets, networking.NewDefaultVPCInfoProvider(cloud, log), vpc,
		tracking.NewDefaultProvider("service.k8s.aws", cluster), tags{}, cloud, gates, cluster, nil, nil, sslPolicy, target,
		internal, gates.Enabled(config.EnableIPTargetType), utils, backendGroup{},
		networking.NewDefaultSecurityGroupResolver(cloud, vpc), true, false, false, log, lbc.NewMockCollector(),
		gates.Enabled(config.EnableTCPUDPListenerType),
		service.NewDefaultEnhancedBackendBuilder(services{cloud: cloud}, parser, log))}
}
