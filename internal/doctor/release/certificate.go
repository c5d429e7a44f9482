package release

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
	// Prefix is the prefix of the names of cert-manager's objects, and Issuer refers to the issuer of the user's; empty
	// for one of our own. Managed is true if the webhooks apply the objects.
	Prefix, Issuer string
	Managed        bool
}

// Certificate returns where the webhooks have their serving certificate from, by their flags.
func (r *Role) Certificate() Certificate {
	c := Certificate{
		Mode: r.ArgumentOr("--cert-mode", ""), Prefix: r.ArgumentOr("--cert-name-prefix", "quaymaster-webhook"),
		Issuer: r.ArgumentOr("--cert-issuer-ref", ""), Managed: r.ArgumentOr("--cert-manager-managed", "true") != "false",
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
