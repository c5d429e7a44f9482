// Command client lists the load balancers of a cloud at MYCLOUD_ENDPOINT with the token MYCLOUD_TOKEN. Its client is
// generated from the API's OpenAPI document.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"

	// The generated client requires it.
	_ "github.com/oapi-codegen/runtime"
)

//go:generate go tool oapi-codegen -generate types,client -include-tags load-balancers -package main -o client.gen.go ../../docs/reference/mycloud-openapi.yaml

func main() {
	if err := list(context.Background(), os.Getenv("MYCLOUD_ENDPOINT"), os.Getenv("MYCLOUD_TOKEN")); err != nil {
		fmt.Fprintln(os.Stderr, "client:", err)
		os.Exit(1)
	}
}

// list prints the name, address and state of every load balancer.
func list(ctx context.Context, endpoint, token string) error {
	authorize := func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+token)
		return nil
	}
	client, err := NewClientWithResponses(endpoint, WithRequestEditorFn(authorize))
	if err != nil {
		return err
	}
	params := &ListLoadBalancersParams{}
	for {
		answer, err := client.ListLoadBalancersWithResponse(ctx, params)
		if err != nil {
			return err
		}
		if answer.JSON200 == nil {
			return fmt.Errorf("list load balancers: %s: %s", answer.Status(), answer.Body)
		}
		for _, lb := range answer.JSON200.Items {
			fmt.Println(lb.Name, addresses(lb), lb.ProvisioningState)
		}
		if params.PageToken = answer.JSON200.NextPageToken; params.PageToken == nil {
			return nil
		}
	}
}

// addresses returns the addresses that the cloud has assigned.
func addresses(lb LoadBalancer) []string {
	found := []string{}
	if lb.Vips == nil {
		return found
	}
	for _, vip := range *lb.Vips {
		if vip.Address != nil {
			found = append(found, *vip.Address)
		}
	}
	return found
}
