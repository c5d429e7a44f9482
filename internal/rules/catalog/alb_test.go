package catalog

import (
	"slices"
	"strings"
	"testing"

	"quaymaster.dev/internal/rules/catalog/library"
)

// The JSON and the listeners of Ingresses for AWS, as the vendor's validation reads them.
func TestIngressesForAWS(t *testing.T) {
	alb, _ := library.BuiltIn().Find("alb")
	set := Set{catalogs: []*library.Catalog{alb}, o: Options{Library: library.BuiltIn()}}
	for value, want := range map[string]string{
		// Actions in the notation of the first controller still work, since names of fields may be in any case.
		`actions.a {"Type": "redirect", "RedirectConfig": {"Protocol": "HTTPS", "Port": "443", "StatusCode": "HTTP_301"}}`:                                     "",
		`actions.a {"type": "forward", "targetGroupARN": "arn:aws:elasticloadbalancing:eu-west-1:1:targetgroup/a/1"}`:                                          "",
		`actions.a {"type": "forward", "forwardConfig": {"targetGroups": [{"serviceName": "a", "servicePort": "http"}]}}`:                                      "",
		`actions.a {"type": "forward", "forwardConfig": {"targetGroups": [{"serviceName": "a"}]}}`:                                                             "error servicePort",
		`actions.a {"type": "forward", "forwardConfig": {"targetGroups": [{"serviceName": "a", "servicePort": 80}, {"serviceName": "b", "servicePort": 80}]}}`: "error weight",
		`actions.a {"type": "forward", "forwardConfig": {"targetGroups": [{"serviceName": "a", "servicePort": 80, "weigth": 1}]}}`:                             "warning forwardConfig.targetGroups[0].weigth",
		`actions.a {"type": "forward", "forwardConfig": {"targetGroups": [{"targetGroupARN": "arn"}]}, "targetGroupARN": "arn"}`:                               "error forwardConfig and targetGroupARN",
		`actions.a {"type": "redirect", "redirectConfig": {"statusCode": "301"}}`:                                                                              "error HTTP_301",
		`actions.a {"type": "redirect", "redirectConfig": {"port": 443, "statusCode": "HTTP_301"}}`:                                                            "error redirectConfig.port",
		`actions.a {"type": "fixed-response", "fixedResponseConfig": {"statusCode": 503}}`:                                                                     "error fixedResponseConfig.statusCode",
		`actions.a {"type": "fixed-response"}`:                                                                                                                 "error lacks fixedResponseConfig",
		`conditions.a [{"field": "host-header", "hostHeaderConfig": {"values": ["a.example.com"]}}]`:                                                           "",
		`conditions.a [{"field": "source-ip", "sourceIPConfig": {"values": ["192.0.2.1"]}}]`:                                                                   "error [0].sourceIPConfig.values[0]",
		`conditions.a [{"field": "path-pattern", "hostHeaderConfig": {"values": ["/a"]}}]`:                                                                     "error lacks pathPatternConfig",
		`conditions.a [{"field": "http-header", "httpHeaderConfig": {"values": ["a"]}}]`:                                                                       "error lacks httpHeaderName",
		`conditions.a [{"type": "Header", "headerConfig": {"key": "a", "values": ["b"]}}]`:                                                                     "warning headerConfig",
		`transforms.a [{"type": "url-rewrite", "hostHeaderRewriteConfig": {"rewrites": [{"regex": "a", "replace": "b"}]}}]`:                                    "error lacks urlRewriteConfig",
		`mutual-authentication [{"port": 443, "mode": "verify", "trustStore": "shop"}, {"port": 444, "mode": "off"}]`:                                          "",
		`mutual-authentication [{"port": 443, "mode": "verify"}]`:                                                                                              "error lacks trustStore",
		`mutual-authentication [{"port": "443", "mode": "passthrough"}]`:                                                                                       "error [0].port",
		`jwt-validation {"jwksEndpoint": "https://example.com/jwks"}`:                                                                                          "error lacks issuer",
		`jwt-validation {"jwksEndpoint": "https://example.com/jwks", "issuer": "a", "additionalClaims": [{"name": "a", "values": ["b"], "format": "string"}]}`: "error single-string",
		`auth-idp-cognito {"userPoolARN": "arn", "userPoolClientID": "id", "userPoolDomain": "shop", "authenticationRequestExtraParams": {"display": "page"}}`: "",
		`auth-idp-oidc {"issuer": "https://a", "authorizationEndpoint": "https://a", "tokenEndpoint": "https://a", "userInfoEndpoint": "https://a"}`:           "error lacks secretName",
		`ssl-redirect 443; listen-ports [{"HTTP": 80}, {"HTTPS": 443}]`:                                                                                        "",
		`ssl-redirect 443; listen-ports [{"HTTP": 80}]`:                                                                                                        "error port 443",
		`ssl-redirect 443; listen-ports [{"HTTP": 80}, {"HTTPS": 8443}]`:                                                                                       "error port 443",
		`ssl-redirect 443; listen-ports [{"HTTP": 80}]; group.name shop`:                                                                                       "",
		`ssl-redirect 443`: "",
		`certificate-arn arn:aws:acm:eu-west-1:1:certificate/a; listen-ports [{"HTTP": 80}]`:                                     "warning HTTPS",
		`certificate-arn arn:aws:acm:eu-west-1:1:certificate/a`:                                                                  "",
		`load-balancer-attributes idle_timeout.timeout_seconds=600,routing.http2.enabled=true,access_logs.s3.prefix=a`:           "",
		`load-balancer-attributes routing.http2.enable=true`:                                                                     "warning routing.http2.enable",
		`load-balancer-attributes routing.http3.limit=1,something.new=2`:                                                         "",
		`load-balancer-attributes idle_timeout.timeout_seconds=5000`:                                                             "error key=value",
		`target-group-attributes stickiness.enabled=true,stickiness.lb_cookie.duration_seconds=60,slow_start.duration_seconds=0`: "",
		`target-group-attributes load_balancing.algorithm.type=random`:                                                           "error key=value",
		`inbound-cidrs 10.0.0.0/8; security-groups sg-1`:                                                                         "warning security-groups",
		`manage-backend-security-group-rules true`:                                                                               "warning security-groups",
		`healthcheck-timeout-seconds 10; healthcheck-interval-seconds 10`:                                                        "error less than",
		`auth-type cognito`: "warning auth-idp-cognito",
	} {
		annotations := map[string]string{}
		for one := range strings.SplitSeq(value, "; ") {
			key, raw, _ := strings.Cut(one, " ")
			annotations["alb.ingress.kubernetes.io/"+key] = raw
		}
		findings := reviewed(set, nil, balancer(annotations))
		var got []string
		for _, f := range findings {
			got = append(got, string(f.Severity)+" "+f.Message)
		}
		severity, part, _ := strings.Cut(want, " ")
		if want == "" && len(got) > 0 || want != "" && !slices.ContainsFunc(got, func(text string) bool {
			return len(got) == 1 && strings.HasPrefix(text, severity) && strings.Contains(text, part)
		}) {
			t.Errorf("%s: got %q, want %q", value, got, want)
		}
	}
}
