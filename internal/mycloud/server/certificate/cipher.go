package certificate

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/durable"
)

// keySize is that of AES-256.
const keySize = 32

// errOtherKey is the error for what was not encrypted with this key.
var errOtherKey = errors.New("it was encrypted with a different key, or is damaged; use the key that the state was written with")

// Cipher encrypts key pairs with AES-256-GCM.
type Cipher struct{ aead cipher.AEAD }

// NewCipher returns the cipher of a key in base64.
func NewCipher(encoded string) (*Cipher, error) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(encoded))
	if err != nil || len(key) != keySize {
		// The error does not quote what may be a key.
		return nil, fmt.Errorf("encryption key: must be %d bytes in base64; create one with: openssl rand -base64 %d",
			keySize, keySize)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("encryption key: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("encryption key: %w", err)
	}
	return &Cipher{aead}, nil
}

// Seal encrypts the key pair of a certificate. The result can only be opened for the same certificate.
func (c *Cipher) Seal(id string, pair cloudv1.KeyPair) (string, error) {
	plain, err := json.Marshal(pair)
	if err != nil {
		return "", fmt.Errorf("encode key pair: %w", err)
	}
	return string(c.seal(id, plain)), nil
}

// seal encrypts bytes for an id. Of this kind of cipher, the nonce is random and part of the result.
func (c *Cipher) seal(id string, plain []byte) []byte {
	return c.aead.Seal(nil, nil, plain, []byte(id)) //nolint:gosec // G407: the nonce is not chosen here
}

// SealText encrypts a text that is not stored. The result has letters, digits, - and _, and can only be opened for the same
// purpose, which must not be the id of a certificate.
func (c *Cipher) SealText(purpose, text string) string {
	return base64.RawURLEncoding.EncodeToString(c.seal(purpose, []byte(text)))
}

// OpenText decrypts a text, and returns false if it was not encrypted with this key for this purpose.
func (c *Cipher) OpenText(purpose, sealed string) (text string, ok bool) {
	raw, err := base64.RawURLEncoding.DecodeString(sealed)
	if err != nil {
		return "", false
	}
	plain, err := c.aead.Open(nil, nil, raw, []byte(purpose))
	return string(plain), err == nil
}

// Open decrypts the key pair of a certificate.
func (c *Cipher) Open(id, sealed string) (cloudv1.KeyPair, error) {
	var pair cloudv1.KeyPair
	plain, err := c.aead.Open(nil, nil, []byte(sealed), []byte(id))
	if err != nil {
		return pair, fmt.Errorf("decrypt the key pair of certificate %s: %w", id, errOtherKey)
	}
	if json.Unmarshal(plain, &pair) != nil {
		// The error of the decoder could quote the key.
		return pair, fmt.Errorf("decode the key pair of certificate %s: it is malformed", id)
	}
	return pair, nil
}

// LoadKey reads a key from a file.
func LoadKey(path string) (string, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read encryption key: %w", err)
	}
	return string(raw), nil
}

// LoadOrCreateKey reads a key from a file, or creates the file with a new key.
func LoadOrCreateKey(path string) (string, error) {
	key, err := LoadKey(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	random := make([]byte, keySize)
	// It never fails.
	_, _ = rand.Read(random)
	key = base64.StdEncoding.EncodeToString(random)
	if err := durable.Replace(path, []byte(key+"\n")); err != nil {
		return "", fmt.Errorf("create encryption key: %w", err)
	}
	return key, nil
}
