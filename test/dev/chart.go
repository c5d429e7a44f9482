package main

import "quaymaster.dev/test/env"

// chartValues are the values of a development installation: the API server calls the webhook on a port of loopback,
// and a Service that cannot be judged is refused, so that nobody takes a dead webhook for a generous one.
func chartValues(port int) env.Values {
	return env.Values{
		"webhook": map[string]any{
			"url":           env.WebhookURL(port),
			"failurePolicy": map[string]any{"mutateService": "Fail", "validateService": "Fail"},
		},
		// The controllers' rights depend on what they are to do.
		"cloudController": map[string]any{"clusterCIDR": env.ClusterCIDR},
		"cloud":           map[string]any{"network": map[string]any{"routeTableID": "rt-main"}},
	}
}
