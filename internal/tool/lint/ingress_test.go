package lint_test

import (
	"slices"
	"strings"
	"testing"

	"quaymaster.dev/internal/tool/lint"
	"quaymaster.dev/internal/tool/manifest"
)

// Annotations of an Ingress that contradict its spec are found. Of a patch, which has no spec, nothing is known.
func TestAnnotationsBesideSpecOfIngress(t *testing.T) {
	const (
		tls     = "tls: [{secretName: shop}]"
		backend = "rules: [{host: shop.example.com, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]"
		path    = "rules: [{http: {paths: [{path: /api, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]"

		redirect    = `appgw.ingress.kubernetes.io/ssl-redirect: "true"`
		certificate = "appgw.ingress.kubernetes.io/appgw-ssl-certificate: shop"
		profile     = "appgw.ingress.kubernetes.io/appgw-ssl-profile: strict"
		httpsOnly   = `kubernetes.io/ingress.allow-http: "false"`
		preShared   = "ingress.gcp.kubernetes.io/pre-shared-cert: shop"
		action      = `alb.ingress.kubernetes.io/actions.web: '{"type":"redirect","redirectConfig":{"statusCode":"HTTP_301"}}'`
		passthrough = "ingress.cilium.io/tls-passthrough: enabled"
	)
	for name, tc := range map[string]struct {
		annotations, spec string
		want              []string
	}{
		"redirect without a certificate": {redirect, backend, []string{"agic-requirement"}},
		"with a secret":                  {redirect, backend + ", " + tls, nil},
		"with a certificate of Azure":    {redirect + ", " + certificate, backend, nil},
		"with both":                      {redirect + ", " + certificate, backend + ", " + tls, []string{"agic-requirement"}},
		"no redirect":                    {`appgw.ingress.kubernetes.io/ssl-redirect: "false"`, backend, nil},
		"TLS profile without TLS":        {profile, backend, []string{"agic-requirement"}},
		"patch":                          {redirect + ", " + profile, "", nil},
		"neither HTTP nor HTTPS":         {httpsOnly, backend, []string{"gce-requirement"}},
		"HTTPS":                          {httpsOnly + ", " + preShared, backend, nil},
		"action of a backend":            {action, strings.Replace(backend, "number: 80", "name: use-annotation", 1), nil},
		"action and a number":            {action, backend, []string{"alb-requirement"}},
		"internal HTTP and HTTPS":        {"kubernetes.io/ingress.class: gce-internal", backend + ", " + tls, []string{"gce-requirement"}},
		"only internal HTTPS":            {"kubernetes.io/ingress.class: gce-internal, " + httpsOnly, backend + ", " + tls, nil},
		"of a different controller":      {"kubernetes.io/ingress.class: nginx", backend + ", " + tls, nil},
		"of the default backend":         {action, "defaultBackend: {service: {name: web, port: {name: use-annotation}}}", nil},
		"of no backend":                  {action, "defaultBackend: {service: {name: shop, port: {name: use-annotation}}}", []string{"alb-requirement"}},
		"TLS passed through":             {passthrough, backend, nil},
		"for a path and no host":         {passthrough, path, []string{"cilium-ingress-requirement", "cilium-ingress-requirement"}},
	} {
		t.Run(name, func(t *testing.T) {
			text := "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: o, annotations: {" + tc.annotations + "}}\nspec: {" + tc.spec + "}\n"
			linter := &lint.Linter{}
			results, _ := linter.Files([]manifest.File{manifest.Parse("f", []byte(text), linter.Wanted)}, lint.NewReviewer(lint.ReviewerOptions{}))
			var ids []string
			for _, r := range results {
				for _, found := range r.Findings {
					ids = append(ids, found.ID)
				}
			}
			if !slices.Equal(ids, tc.want) {
				t.Errorf("got %q, want %q: %+v", ids, tc.want, results)
			}
		})
	}
}
