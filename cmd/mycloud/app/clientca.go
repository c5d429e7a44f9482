package app

import (
	"crypto/tls"
	"log/slog"

	"quaymaster.dev/internal/reload"
)

// acceptClients makes servers with the configuration verify client certificates, if clients send any.
func acceptClients(config *tls.Config, path string, logger *slog.Logger) error {
	authorities := reload.CAs(path, func(err error) { logger.Error("Failed to reload the client CA", "error", err) })
	if _, err := authorities.Get(); err != nil {
		return err
	}
	config.ClientAuth = tls.VerifyClientCertIfGiven
	// A session that is resumed would not be verified by the present authorities.
	config.SessionTicketsDisabled = true
	// The server adds the second one only to the configuration that it has itself.
	config.NextProtos = []string{"h2", "http/1.1"}
	base := config.Clone()
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		pool, err := authorities.Get()
		if err != nil {
			return nil, err
		}
		current := base.Clone()
		current.ClientCAs = pool
		return current, nil
	}
	return nil
}
