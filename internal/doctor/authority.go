package doctor

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"
)

// renewal is how long before its end a certificate should have been replaced.
const renewal = 7 * 24 * time.Hour

// authority looks at the authorities by which API servers trust the webhooks.
func (e *examination) authority(context.Context) Result {
	if e.release.find(validateService) == nil {
		return skip(noWebhooks)
	}
	remedy := "see the check of cert-manager: its cainjector puts the authority there"
	switch e.release.webhook.argumentOr("--cert-mode", "") {
	case modeSelfSigned:
		remedy = "see the logs of the webhook's pods, which put the authority there"
	case modeFiles, "":
		remedy = "put the authority of the serving certificate into webhook.caBundle"
	}
	var problems []string
	last := time.Time{}
	for _, w := range e.release.webhooks() {
		if len(w.client.CABundle) == 0 {
			problems = append(problems, w.name+" has none, so API servers trust nobody there but public authorities")
			continue
		}
		authorities, err := parse(w.client.CABundle)
		if err != nil {
			problems = append(problems, fmt.Sprintf("that of %s: %v", w.name, err))
			continue
		}
		until := validUntil(authorities, e.now())
		if until.IsZero() {
			problems = append(problems, fmt.Sprintf("that of %s is not valid: it ended at %s", w.name, authorities[0].NotAfter.Format(time.RFC3339)))
			continue
		}
		if last.IsZero() || until.Before(last) {
			last = until
		}
	}
	switch {
	case len(problems) > 0:
		return fail(remedy, "%s", strings.Join(problems, "; "))
	case last.Sub(e.now()) < renewal:
		return warn(remedy, "it ends at %s", last.Format(time.RFC3339))
	}
	return ok("valid until %s", last.Format(time.RFC3339))
}

// parse reads certificates in PEM, all of them.
func parse(bundle []byte) ([]*x509.Certificate, error) {
	var all []*x509.Certificate
	for rest := bundle; ; {
		var block *pem.Block
		block, rest = pem.Decode(rest)
		if block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("read certificate: %w", err)
		}
		all = append(all, cert)
	}
	if len(all) == 0 {
		return nil, errors.New("holds no certificate in PEM")
	}
	return all, nil
}

// validUntil is the end of the certificate that is valid longest; zero if none is valid now.
func validUntil(certs []*x509.Certificate, now time.Time) time.Time {
	var until time.Time
	for _, c := range certs {
		if now.Before(c.NotBefore) || now.After(c.NotAfter) {
			continue
		}
		if c.NotAfter.After(until) {
			until = c.NotAfter
		}
	}
	return until
}
