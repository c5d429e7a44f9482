package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/pflag"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/internal/mycloud/cloudapi/tlsfiles"
	"quaymaster.dev/internal/version"
)

// clientOptions holds the flags that select the cloud.
type clientOptions struct {
	endpoints []string
	tokenFile string
	insecure  bool
	tls       tlsfiles.Files
	cloudID   string
	// identify makes sure that the cloud is the right one; if nil, any is, unless there is a cloudID.
	identify func(context.Context) error
	// variable is the environment variable with the token; it defaults to tokenVariable.
	variable string
}

func (o *clientOptions) addFlags(f *pflag.FlagSet) {
	if o.variable == "" {
		o.variable = tokenVariable
	}
	f.StringSliceVar(&o.endpoints, "endpoint", nil,
		"URL of the API: scheme, host and port; may be repeated or have several separated by commas, for servers of the same "+
			"cloud, of which one that fails is replaced by another; overrides "+endpointVariable)
	f.StringVar(&o.tokenFile, "token-file", "", "file with the bearer token; overrides "+o.variable)
	f.StringVar(&o.cloudID, "cloud-id", "", "id of the cloud, which is the field id of GET /v1/meta: a different cloud at the endpoint is refused; overrides "+
		cloudIDVariable)
	f.BoolVar(&o.insecure, "allow-insecure-http", false,
		"send the token in the clear to an http endpoint that is not local")
	f.StringVar(&o.tls.CA, "ca-file", "",
		"file with the authorities of the API's certificate; empty for those of the system")
	f.StringVar(&o.tls.Cert, "client-cert-file", "", "file with the client certificate, which may serve instead of a token; requires --client-key-file; "+
		"files that change are read again")
	f.StringVar(&o.tls.Key, "client-key-file", "", "file with the key of the client certificate")
}

func (o *clientOptions) client() (*cloudapi.Client, error) {
	if text := os.Getenv(endpointVariable); len(o.endpoints) == 0 && text != "" {
		o.endpoints = strings.Split(text, ",")
	}
	if len(o.endpoints) == 0 {
		return nil, fmt.Errorf("endpoint is required; set --endpoint or %s", endpointVariable)
	}
	token := cloudapi.StaticToken(os.Getenv(o.variable))
	switch {
	case o.tokenFile != "":
		token = cloudapi.TokenFile(o.tokenFile)
	case os.Getenv(o.variable) == "" && o.tls.Cert == "":
		return nil, fmt.Errorf("token is required; set --token-file, %s or --client-cert-file", o.variable)
	}
	return o.clientWith(token)
}

// call calls do with a client, and explains its error.
func (o *clientOptions) call(do func(*cloudapi.Client) error) error {
	c, err := o.client()
	if err != nil {
		return err
	}
	return explain(do(c))
}

// clientWith returns the client with another token.
func (o *clientOptions) clientWith(token func() (string, error)) (*cloudapi.Client, error) {
	var client *cloudapi.Client
	identify := o.identify
	if identify == nil && o.id() != "" {
		identify = func(ctx context.Context) error { return expect(ctx, client, o.id()) }
	}
	var err error
	client, err = cloudapi.New(cloudapi.Options{
		Endpoint: o.endpoints[0], OtherEndpoints: o.endpoints[1:], AllowInsecureHTTP: o.insecure, Token: token, TLS: o.tls,
		Identify: identify, UserAgent: "mycloud/" + version.Version(),
	})
	if errors.Is(err, cloudapi.ErrInsecure) {
		return nil, fmt.Errorf("%w; use https, or set --allow-insecure-http", err)
	}
	return client, err
}

// id returns the id of the cloud; empty if any will do.
func (o *clientOptions) id() string { return cmp.Or(o.cloudID, os.Getenv(cloudIDVariable)) }

// expect returns an error unless the cloud has an id.
func expect(ctx context.Context, c *cloudapi.Client, id string) error {
	meta, err := c.Identity(ctx)
	if err != nil {
		return err
	}
	if meta.ID != id {
		return fmt.Errorf("the endpoint leads to cloud %s, not to %s; correct --endpoint or --cloud-id", meta.ID, id)
	}
	c.Expect(meta.ID, meta.Revision)
	return nil
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
		return fmt.Errorf("the cloud rejected the token or the client certificate; set --token-file or %s to a token of the cloud", tokenVariable)
	}
	parts := []string{e.Problem.Detail}
	for _, f := range e.Problem.Errors {
		parts = append(parts, strings.TrimPrefix(f.Pointer, "/")+" "+f.Detail)
	}
	return fmt.Errorf("%s (%s)", strings.Join(parts, "; "), e.Problem.Code)
}
