package app

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/pflag"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/internal/version"
)

// clientOptions holds the flags that select the cloud.
type clientOptions struct {
	endpoint, tokenFile string
	insecure            bool
	tls                 cloudapi.TLSFiles
	// variable is the environment variable with the token; it defaults to tokenVariable.
	variable string
}

func (o *clientOptions) addFlags(f *pflag.FlagSet) {
	if o.variable == "" {
		o.variable = tokenVariable
	}
	f.StringVar(&o.endpoint, "endpoint", "", "URL of the API: scheme, host and port; overrides "+endpointVariable)
	f.StringVar(&o.tokenFile, "token-file", "", "file with the bearer token; overrides "+o.variable)
	f.BoolVar(&o.insecure, "allow-insecure-http", false,
		"send the token in the clear to an http endpoint that is not local")
	f.StringVar(&o.tls.CA, "ca-file", "",
		"file with the authorities of the API's certificate; empty for those of the system")
	f.StringVar(&o.tls.Cert, "client-cert-file", "", "file with the client certificate; requires --client-key-file")
	f.StringVar(&o.tls.Key, "client-key-file", "", "file with the key of the client certificate")
}

func (o *clientOptions) client() (*cloudapi.Client, error) {
	if o.endpoint == "" {
		o.endpoint = os.Getenv(endpointVariable)
	}
	if o.endpoint == "" {
		return nil, fmt.Errorf("endpoint is required; set --endpoint or %s", endpointVariable)
	}
	token := cloudapi.StaticToken(os.Getenv(o.variable))
	switch {
	case o.tokenFile != "":
		token = cloudapi.TokenFile(o.tokenFile)
	case os.Getenv(o.variable) == "":
		return nil, fmt.Errorf("token is required; set --token-file or %s", o.variable)
	}
	return o.clientWith(token)
}

// clientWith returns the client with another token.
func (o *clientOptions) clientWith(token func() (string, error)) (*cloudapi.Client, error) {
	client, err := cloudapi.New(cloudapi.Options{
		Endpoint: o.endpoint, AllowInsecureHTTP: o.insecure, Token: token, TLS: o.tls,
		UserAgent: "mycloud/" + version.Version(),
	})
	if errors.Is(err, cloudapi.ErrInsecure) {
		return nil, fmt.Errorf("%w; use https, or set --allow-insecure-http", err)
	}
	return client, err
}

// explain returns a problem of the cloud as one line for the user.
func explain(err error) error {
	var e *cloudapi.Error
	if call, failed := errors.AsType[*url.Error](err); failed {
		at, _ := url.Parse(call.URL)
		return fmt.Errorf("no response of the cloud at %s: %w; start it with mycloud serve, or correct --endpoint or %s",
			at.Host, call.Err, endpointVariable)
	}
	if !errors.As(err, &e) || e.Problem == nil {
		return err
	}
	if e.Problem.Code == cloudv1.CodeUnauthenticated {
		return fmt.Errorf("the cloud rejected the token; set --token-file or %s to the token of mycloud serve", tokenVariable)
	}
	parts := []string{e.Problem.Detail}
	for _, f := range e.Problem.Errors {
		parts = append(parts, strings.TrimPrefix(f.Pointer, "/")+" "+f.Detail)
	}
	return fmt.Errorf("%s (%s)", strings.Join(parts, "; "), e.Problem.Code)
}
