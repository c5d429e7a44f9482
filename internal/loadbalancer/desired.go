package loadbalancer

import (
	"net/netip"
	"strconv"
	"time"
)

// Desired is the load balancer that a Service asks for: everything but what only the cloud or the cluster knows (the
// name, the tags of ownership, the id of the node group).
//
// A field with a key tag is the value of the annotation of that name under Prefix; its other tags are the key's
// description, from which parser, messages and reference docs come (see annotation.Describe).
type Desired struct {
	NetworkType        string            `key:"network-type" validate:"oneof=public private" default:"public" immutable:"true" also:"internal private public scheme internal-load-balancer use-private-network address-type load-balancer-type type" help:"Whether the load balancer is reachable from the internet or from the private network alone."`
	SubnetID           string            `key:"subnet-id" validate:"prefixed=subnet- 1 64" example:"subnet-a1" immutable:"true" applies:"private" also:"subnet internal-subnet subnets" help:"Subnet of a private load balancer; without it the cloud chooses."`
	Zones              []string          `key:"zones" validate:"dive,dnslabel" example:"eu-1a,eu-1b" also:"az availability-zones" help:"Zones in which the load balancer runs; without it all of them. Whether they exist is checked by the controllers."`
	Flavor             string            `key:"flavor" validate:"dnslabel" example:"large" also:"size spec load-balancer-spec class size-slug" help:"Size of the load balancer; without it the cloud's default."`
	BandwidthMbps      int               `key:"bandwidth-mbps" validate:"min=1,max=100000" example:"500" also:"bandwidth" help:"Bandwidth limit of the load balancer in megabits per second; without it none."`
	IngressGroup       string            `key:"ingress-group" validate:"dnslabel,not=true false" default:"default" example:"edge" also:"node-group backend-label node-selector target-node-labels" help:"Group of ingress nodes that serve the load balancer, as named by the Nodes' annotation node.beta.kubernetes.io/dlb-ingress-node."`
	DrainTimeout       time.Duration     `key:"drain-timeout" validate:"min=0s,max=1h,wholesecs" default:"30s" also:"drain connection-draining connection-draining-timeout deregistration-delay" help:"How long a leaving backend may finish its connections."`
	Tags               map[string]string `key:"tags" validate:"max=20,dive,keys,tagkey,endkeys,tagvalue" example:"team=edge,cost-center=42" also:"additional-resource-tags additional-tags labels resource-tags" help:"Tags of the load balancer in the cloud, beside those of Quaymaster."`
	DeletionProtection bool              `key:"deletion-protection" default:"false" also:"delete-protection protection" help:"Guards the load balancer against deletion in the cloud. While true, deleting the Service waits."`
	RetainOnDelete     bool              `key:"retain-on-delete" default:"false" also:"retain keep reclaim-policy" help:"Releases the load balancer instead of deleting it when the Service is deleted."`
	AdoptID            string            `key:"load-balancer-id" validate:"prefixed=lb- 1 64" example:"lb-0a1b2c" also:"id lb-id loadbalancer-id existing" help:"Existing load balancer to adopt. May change only while the Service has no address."`
	Hostname           string            `key:"hostname" validate:"dnsname" example:"shop.example.com" also:"dns-name domain external-hostname" help:"Name to publish in the Service's status instead of the address. Not together with ip-mode."`
	IPMode             string            `key:"ip-mode" validate:"oneof=vip proxy" default:"proxy if a listener is http or https or uses the PROXY protocol, else vip" example:"proxy" also:"ipmode" help:"Whether nodes may short-cut traffic to the address (vip) or must send it through the load balancer (proxy)."`

	// AllowedSources limits who may connect; empty is everyone.
	AllowedSources []netip.Prefix
	// Families are ipv4, ipv6 or both, in the order of the Service.
	Families []string
	// Listeners are in the order of the Service's ports.
	Listeners []Listener
}

// Listener is one port of the load balancer with its backends. Its annotations have a port form.
type Listener struct {
	// Transport is tcp or udp, as in the Service's port.
	Transport string
	// Port is the listening port, NodePort the backends' port (0 where the API server has not allocated it yet).
	Port, NodePort int32

	Protocol       string        `key:"listener-protocol" validate:"oneof=tcp udp http https" default:"udp for UDP ports; http for TCP ports with appProtocol http; else tcp" example:"http" applies:"transport" also:"protocol backend-protocol listener-type" help:"What the listener speaks. It must fit the transport of every port that it governs."`
	MaxQPS         int           `key:"listener-maxqps" validate:"min=1,max=1000000" default:"10000" example:"5000" also:"qps max-qps rps rate-limit max-requests" help:"Requests per second for http and https, else new connections (tcp) or flows (udp) per second."`
	MaxConnections int           `key:"listener-maxconn" validate:"min=1,max=1000000" example:"20000" also:"max-connections connection-limit maxconnections" help:"Concurrent connections; without it no limit."`
	IdleTimeout    time.Duration `key:"listener-idle-timeout" validate:"min=1s,max=1h" default:"60s" also:"idle-timeout connection-idle-timeout timeout" help:"How long a connection may be silent."`
	CertificateID  string        `key:"listener-tls-certificate-id" validate:"prefixed=cert- 8 64" example:"cert-0123456789" applies:"https" also:"certificate certificate-id cert cert-id ssl-cert tls-cert ssl-certificate listener-cert-id listener-ssl-cert tls-certificate tls-certificate-id" help:"Certificate of an https listener. Every https listener needs one."`
	ProxyProtocol  string        `key:"listener-proxy-protocol" validate:"oneof=none v1 v2" default:"none" example:"v2" applies:"tcp" also:"proxy-protocol enable-proxy-protocol" help:"Version of the PROXY protocol spoken to the backends."`
	Scheduler      string        `key:"scheduler" validate:"oneof=round-robin weighted-round-robin least-connections source-ip" default:"round-robin" example:"least-connections" also:"algorithm lb-algorithm algorithm-type balance balancing lb-method" help:"How a backend is chosen for a new connection."`

	// AffinityTimeout keeps a client on one backend for so long after its last connection (sessionAffinity: ClientIP);
	// 0 is no affinity.
	AffinityTimeout time.Duration
	HealthCheck     HealthCheck
}

// HealthCheck probes the backends of a listener.
type HealthCheck struct {
	// Port is 0 for the listener's NodePort.
	Port int32

	Protocol string `key:"health-check-protocol" validate:"oneof=tcp http https" default:"tcp" example:"http" applies:"check" also:"health-check-type healthcheck-protocol" help:"How backends are probed. Fixed to http /healthz with externalTrafficPolicy Local and for udp listeners."`
	// Path and ExpectedCodes are empty for a tcp check.
	Path          string        `key:"health-check-path" validate:"urlpath" default:"/" example:"/healthz" applies:"http-check" also:"health-check-uri health-check-url healthcheck-path" help:"Path that an http or https check asks for."`
	ExpectedCodes []string      `key:"health-check-expected-codes" validate:"dive,codes" default:"200-399" example:"200,204,300-399" applies:"http-check" also:"health-check-codes health-check-http-code health-check-success-codes success-codes" help:"Status codes that mean healthy for an http or https check."`
	Interval      time.Duration `key:"health-check-interval" validate:"min=1s,max=300s" default:"10s" also:"healthcheck-interval" help:"Time from one probe to the next."`
	Timeout       time.Duration `key:"health-check-timeout" validate:"min=1s,max=60s" default:"5s" also:"healthcheck-timeout" help:"Time after which a probe has failed. Less than the interval."`
	// Healthy and Unhealthy are how many probes in a row change a backend's state.
	Healthy   int `key:"health-check-healthy-threshold" validate:"min=1,max=10" default:"2" also:"healthy-threshold rise" help:"Good probes in a row that bring a backend back."`
	Unhealthy int `key:"health-check-unhealthy-threshold" validate:"min=1,max=10" default:"3" also:"unhealthy-threshold fall" help:"Failed probes in a row that take a backend out."`
}

// Key is the listener's identity, such as tcp/443.
func (l Listener) Key() string { return listenerKey(l.Transport, l.Port) }

func listenerKey(transport string, port int32) string {
	return transport + "/" + strconv.Itoa(int(port))
}
