package provider_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudprovider "k8s.io/cloud-provider"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/provider"
	"quaymaster.dev/provider/machines"
	"quaymaster.dev/provider/mirror"
	"quaymaster.dev/provider/providerid"
	"quaymaster.dev/test/harness/cloud"
)

func node(name, providerID string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: providerID}}
}

func instancesOf(t *testing.T, c *cloud.Cloud) cloudprovider.InstancesV2 {
	t.Helper()
	empty := mirror.New(mirror.Options{Cloud: c.Client})
	v2, ok := provider.New(machines.New(c.Client, empty)).InstancesV2()
	if !ok {
		t.Fatal("InstancesV2 is not supported")
	}
	return v2
}

func TestInstanceStates(t *testing.T) {
	c := cloud.Start(t, 0)
	v2 := instancesOf(t, c)
	ctx := t.Context()
	if _, err := c.Client.StopInstance(ctx, "i-node-2", cloudapi.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"i-node-3", "i-node-4"} {
		if _, err := c.Client.DeleteInstance(ctx, id, cloudapi.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		node             *corev1.Node
		exists, shutdown bool
		err              string
	}{
		"running":                               {node: node("node-1", "mycloud://i-node-1"), exists: true},
		"running, by hostname":                  {node: node("node-1", ""), exists: true},
		"stopped":                               {node: node("node-2", "mycloud://i-node-2"), exists: true, shutdown: true},
		"tombstone":                             {node: node("node-3", "mycloud://i-node-3")},
		"tombstone, by hostname":                {node: node("node-4", ""), err: "neither its machine nor a record"},
		"unknown to the API":                    {node: node("node-9", "mycloud://i-node-9"), err: "neither its machine nor a record"},
		"unknown to the API, by hostname":       {node: node("node-9", ""), err: "neither its machine nor a record"},
		"of another cloud":                      {node: node("node-1", "aws:///eu/i-1"), err: "another cloud"},
		"malformed provider ID":                 {node: node("node-1", "mycloud://"), err: "must be mycloud://<instance-id>"},
		"another hostname than the Node's name": {node: node("renamed", "mycloud://i-node-1"), exists: true},
	} {
		t.Run(name, func(t *testing.T) {
			exists, err := v2.InstanceExists(ctx, tc.node)
			if exists != tc.exists || !matches(err, tc.err) {
				t.Errorf("InstanceExists = %t, %v; want %t, %q", exists, err, tc.exists, tc.err)
			}
			shutdown, err := v2.InstanceShutdown(ctx, tc.node)
			if shutdown != tc.shutdown || !matches(err, tc.err) {
				t.Errorf("InstanceShutdown = %t, %v; want %t, %q", shutdown, err, tc.shutdown, tc.err)
			}
		})
	}
}

func matches(err error, text string) bool {
	if text == "" {
		return err == nil
	}
	return err != nil && strings.Contains(err.Error(), text)
}

// Whatever the response of a faulty cloud or a proxy, or to a wrong token, no Node is reported as gone.
func TestInstanceExistsIsNeverFalseByMistake(t *testing.T) {
	c := cloud.Start(t, 0)
	v2 := instancesOf(t, c)
	for name, sick := range map[string]func(http.ResponseWriter, *http.Request) bool{
		"404 of the API":           cloud.Refuse(404, cloudv1.CodeResourceNotFound),
		"410 of the API":           cloud.Refuse(410, cloudv1.CodeResourceGone),
		"401":                      cloud.Refuse(401, cloudv1.CodeUnauthenticated),
		"403":                      cloud.Refuse(403, cloudv1.CodeForbidden),
		"408":                      cloud.Answer(408, "text/plain", ""),
		"409":                      cloud.Refuse(409, cloudv1.CodeConflict),
		"429":                      cloud.Refuse(429, cloudv1.CodeRateLimited),
		"500":                      cloud.Refuse(500, cloudv1.CodeInternal),
		"503 in HTML":              cloud.Answer(503, "text/html", "<html>"),
		"404 in HTML":              cloud.Answer(404, "text/html", "<html>"),
		"200 in HTML":              cloud.Answer(200, "text/html", "<html>"),
		"200, empty":               cloud.Answer(200, "application/json", ""),
		"200, an empty object":     cloud.Answer(200, "application/json", "{}"),
		"200, cut short":           cloud.Answer(200, "application/json", `{"id":"i-node-1","sta`),
		"200, another's tombstone": cloud.Answer(200, "application/json", `{"id":"i-node-2","state":"deleted"}`),
		"redirect":                 cloud.Answer(302, "text/html", ""),
		"connection reset": func(http.ResponseWriter, *http.Request) bool {
			panic(http.ErrAbortHandler)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.Intercept(sick)
			defer c.Intercept(nil)
			for _, n := range []*corev1.Node{node("node-1", "mycloud://i-node-1"), node("node-1", "")} {
				if exists, err := v2.InstanceExists(t.Context(), n); err == nil && !exists {
					t.Errorf("node with provider ID %q is reported as gone", n.Spec.ProviderID)
				} else if err == nil {
					t.Errorf("node with provider ID %q: no error", n.Spec.ProviderID)
				}
			}
		})
	}
}

func TestInstanceMetadata(t *testing.T) {
	c := cloud.Start(t, 0)
	ctx := t.Context()
	dual, err := c.Client.CreateInstance(ctx, cloudv1.InstanceSpec{
		Hostname: "dual", Type: "m1.large", Zone: "eu-1b",
		Addresses: []cloudv1.InstanceAddress{
			{Type: "external-dns", Address: "dual.example.com"},
			{Type: "external", Family: "ipv4", Address: "198.51.100.99"},
			{Type: "internal", Family: "ipv6", Address: "fd00::99"},
			{Type: "internal", Family: "ipv4", Address: "10.0.0.99"},
		},
	}, cloudapi.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		node *corev1.Node
		want *cloudprovider.InstanceMetadata
	}{
		"one family": {
			node: node("node-1", ""),
			want: &cloudprovider.InstanceMetadata{
				ProviderID: "mycloud://i-node-1", InstanceType: "m1.medium", Zone: "eu-1a", Region: "eu-1",
				NodeAddresses: []corev1.NodeAddress{
					{Type: corev1.NodeInternalIP, Address: "10.0.0.11"},
					{Type: corev1.NodeExternalIP, Address: "198.51.100.11"},
					{Type: corev1.NodeHostName, Address: "node-1"},
				},
			},
		},
		"both families, the cloud's first family first": {
			node: node("dual", providerid.Format(dual.ID)),
			want: &cloudprovider.InstanceMetadata{
				ProviderID: providerid.Format(dual.ID), InstanceType: "m1.large", Zone: "eu-1b", Region: "eu-1",
				NodeAddresses: []corev1.NodeAddress{
					{Type: corev1.NodeInternalIP, Address: "fd00::99"},
					{Type: corev1.NodeInternalIP, Address: "10.0.0.99"},
					{Type: corev1.NodeExternalIP, Address: "198.51.100.99"},
					{Type: corev1.NodeExternalDNS, Address: "dual.example.com"},
					{Type: corev1.NodeHostName, Address: "dual"},
				},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := instancesOf(t, c).InstanceMetadata(ctx, tc.node)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("unexpected metadata (-want +got):\n%s", diff)
			}
		})
	}
	if _, err := c.Client.DeleteInstance(ctx, dual.ID, cloudapi.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err = instancesOf(t, c).InstanceMetadata(ctx, node("dual", providerid.Format(dual.ID)))
	if !errors.Is(err, cloudprovider.InstanceNotFound) {
		t.Errorf("metadata of a tombstone: %v, want %v", err, cloudprovider.InstanceNotFound)
	}
}

// Whether a machine exists is still read when the budget is too short for other reads.
func TestExistenceHasAReserve(t *testing.T) {
	c := cloud.Start(t, 0)
	v2 := instancesOf(t, c)
	c.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		// Ten requests at once, but other clients have left only four, of which half are ours.
		w.Header().Set("RateLimit-Policy", `"read";q=100;w=60`)
		w.Header().Set("RateLimit", `"read";r=4`)
		c.Serve(w, r)
		return true
	})
	if _, err := c.Client.Meta(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Client.Zones(t.Context(), cloudapi.ListOptions{}); cloudapi.RetryAfter(err) == 0 {
		t.Errorf("another read: %v, want one that is postponed", err)
	}
	if exists, err := v2.InstanceExists(t.Context(), node("node-1", "mycloud://i-node-1")); !exists || err != nil {
		t.Errorf("InstanceExists = %t, %v", exists, err)
	}
}
