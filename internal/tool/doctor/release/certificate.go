package release

import (
	"encoding/json"
	"strings"
)

// The modes of the webhook's flag --cert-mode.
const (
	CertManager = "cert-manager"
	SelfSigned  = "self-signed"
	files       = "files"
)

// certVolume is the chart's volume with certificates from files.
const certVolume = "certs"

// Certificate says where the webhooks have their serving certificate from.
type Certificate struct {
	// Mode is empty if it is not known.
	Mode string
	// Secret is the name of the Secret with the certificate or, if it is self-signed, with the CA; empty if there is none.
	Secret string
	// Objects are those of cert-manager that the webhooks apply; none if others do.
	Objects []CertObject
}

// CertObject is an object of cert-manager.
type CertObject struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		SecretName string `json:"secretName"`
		IssuerRef  struct {
			Group string `json:"group"`
			Kind  string `json:"kind"`
			Name  string `json:"name"`
		} `json:"issuerRef"`
	} `json:"spec"`
}

// Resource returns the name of the object's resource.
func (o CertObject) Resource() string { return strings.ToLower(o.Kind) + "s" }

// Certificate returns where the webhooks have their serving certificate from, by their flags.
func (r *Role) Certificate() Certificate {
	c := Certificate{Mode: r.ArgumentOr("--cert-mode", "")}
	for _, text := range r.Arguments("--cert-manager-object") {
		var object CertObject
		if json.Unmarshal([]byte(text), &object) == nil { // webhooks do not start otherwise
			c.Objects = append(c.Objects, object)
		}
	}
	switch c.Mode {
	case "":
	case files:
		for _, volume := range r.Template.Spec.Volumes {
			if volume.Name == certVolume && volume.Secret != nil {
				c.Secret = volume.Secret.SecretName
			}
		}
	default:
		// An empty flag keeps the certificate in memory.
		c.Secret = r.ArgumentOr("--cert-secret", "quaymaster-webhook-tls")
	}
	return c
}

// Serving returns the name of the Certificate that writes the Secret, or a placeholder if it is not known.
func (c Certificate) Serving() string {
	for _, object := range c.Objects {
		if object.Spec.SecretName == c.Secret {
			return object.Metadata.Name
		}
	}
	return "CERTIFICATE"
}
