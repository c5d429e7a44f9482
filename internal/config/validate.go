package config

import (
	"fmt"
	"net/url"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quaymaster.dev/internal/mycloud/cloudapi"
)

func validate(cfg Config) field.ErrorList {
	errs := validateClusterID(cfg.ClusterID, field.NewPath("clusterID"))
	errs = append(errs, validateEndpoint(cfg.Endpoint, cfg.AllowInsecureHTTP, field.NewPath("endpoint"))...)
	seen := map[string]bool{cfg.Endpoint: true}
	for i, other := range cfg.OtherEndpoints {
		at := field.NewPath("otherEndpoints").Index(i)
		errs = append(errs, validateEndpoint(other, cfg.AllowInsecureHTTP, at)...)
		if seen[other] {
			errs = append(errs, field.Duplicate(at, other))
		}
		seen[other] = true
	}
	if cfg.TokenFile == "" && cfg.ClientCertFile == "" {
		errs = append(errs, field.Required(field.NewPath("tokenFile"),
			"must be the path of the file with the bearer token for the cloud, unless clientCertFile is set"))
	}
	if (cfg.ClientCertFile == "") != (cfg.ClientKeyFile == "") {
		missing := field.NewPath("clientCertFile")
		if cfg.ClientKeyFile == "" {
			missing = field.NewPath("clientKeyFile")
		}
		errs = append(errs, field.Required(missing, "clientCertFile and clientKeyFile must be set together"))
	}
	if p := cfg.QuotaPercent; p < 1 || p > 100 {
		errs = append(errs, field.Invalid(field.NewPath("quotaPercent"), p, "must be between 1 and 100"))
	}
	for _, problem := range validation.IsQualifiedName(cfg.LoadBalancerClass) {
		errs = append(errs, field.Invalid(field.NewPath("loadBalancerClass"), cfg.LoadBalancerClass, problem))
	}
	errs = append(errs, validateNetwork(cfg.Network, field.NewPath("network"))...)
	errs = append(errs, validateIngressNodes(cfg.IngressNodes, field.NewPath("ingressNodes"))...)
	if p := cfg.KubeProxyHealthCheckPort; len(validation.IsValidPortNum(int(p))) > 0 {
		errs = append(errs, field.Invalid(field.NewPath("kubeProxyHealthCheckPort"), p, "must be a port, 1 to 65535"))
	}
	return errs
}

// maxGroups is the number of node groups that one list of the cloud returns quickly.
const maxGroups = 500

func validateIngressNodes(nodes IngressNodes, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if f := nodes.Fallback; f != FallbackAll && f != FallbackNone {
		errs = append(errs, field.NotSupported(path.Child("fallback"), f, []string{FallbackAll, FallbackNone}))
	}
	if n := nodes.MaxRemovedPercentPerMinute; n < 1 || n > 100 {
		errs = append(errs, field.Invalid(path.Child("maxRemovedPercentPerMinute"), n, "must be between 1 and 100"))
	}
	if n := nodes.MaxGroups; n < 1 || n > maxGroups {
		errs = append(errs, field.Invalid(path.Child("maxGroups"), n, fmt.Sprintf("must be between 1 and %d", maxGroups)))
	}
	return errs
}

func validateClusterID(id string, path *field.Path) field.ErrorList {
	if id == "" {
		return field.ErrorList{field.Required(path, "must be a DNS label that names the cluster in the cloud")}
	}
	var errs field.ErrorList
	for _, problem := range validation.IsDNS1123Label(id) {
		errs = append(errs, field.Invalid(path, id, problem))
	}
	return errs
}

func validateEndpoint(endpoint string, insecure bool, path *field.Path) field.ErrorList {
	const example = "such as http://127.0.0.1:8090"
	if endpoint == "" {
		return field.ErrorList{field.Required(path, "must be the address of the cloud's API, "+example)}
	}
	u, err := url.Parse(endpoint)
	switch {
	case err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https"):
		return field.ErrorList{field.Invalid(path, endpoint, "must be an HTTP or HTTPS URL, "+example)}
	case u.User != nil:
		return field.ErrorList{field.Invalid(path, u.Redacted(),
			"must not contain credentials; write the token to tokenFile")}
	case strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "":
		return field.ErrorList{field.Invalid(path, endpoint,
			"must not contain anything after host and port: the path of the API is appended")}
	case !insecure && cloudapi.CheckEndpoint(u) != nil:
		return field.ErrorList{field.Invalid(path, endpoint, cloudapi.CheckEndpoint(u).Error()+
			"; use https, or set allowInsecureHTTP to true")}
	}
	return nil
}

func validateNetwork(network Network, path *field.Path) field.ErrorList {
	errs := validateID(network.VPCID, path.Child("vpcID"))
	errs = append(errs, validateID(network.RouteTableID, path.Child("routeTableID"))...)
	seen := map[string]bool{}
	for i, id := range network.SubnetIDs {
		at := path.Child("subnetIDs").Index(i)
		if id == "" {
			errs = append(errs, field.Required(at, "must be the ID of a subnet"))
		}
		if seen[id] {
			errs = append(errs, field.Duplicate(at, id))
		}
		seen[id] = true
		errs = append(errs, validateID(id, at)...)
	}
	return errs
}

// validateID accepts every ID that the cloud may use: IDs are opaque, but never contain a space or a slash.
func validateID(id string, path *field.Path) field.ErrorList {
	if strings.ContainsFunc(id, func(r rune) bool { return r == '/' || unicode.IsSpace(r) || !unicode.IsPrint(r) }) {
		return field.ErrorList{field.Invalid(path, id, "must be an ID without spaces and slashes")}
	}
	return nil
}
