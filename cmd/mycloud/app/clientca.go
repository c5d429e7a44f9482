package app

import (
	"crypto/tls"
	"log/slog"

	"quaymaster.dev/internal/clientca"
)

// acceptClients makes servers with the configuration verify client certificates, if clients send any.
func acceptClients(config *tls.Config, path string, logger *slog.Logger) error {
	authorities, err := clientca.New(path, func(err error) { logger.Error("Failed to reload the client CA", "error", err) })
	if err != nil {
		return err
	}
	config.ClientAuth = tls.VerifyClientCertIfGiven
	// A session that is resumed would not be verified by the present authorities.
	config.SessionTicketsDisabled = true
	// The server adds the second one only to the configuration that it has itself.
	config.NextProtos = []string{"h2", "http/1.1"}
	base := config.Clone()
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		current := base.Clone()
		current.ClientCAs = authorities.Pool()
		return current, nil
	}
	return nil
}
