// Package state keeps an edge's copy of what the cloud wants, in memory and on disk, so that the edge can go on, and
// even start, while the cloud does not answer.
package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/durable"
)

// State is the cloud as of a revision, as far as it concerns edges. A State does not change once others have it.
type State struct {
	// Cloud is the id of the cloud; empty in a file of a version that did not know it.
	Cloud string `json:"cloud,omitempty"`
	// Revision is the cloud's.
	Revision      string                            `json:"revision"`
	LoadBalancers map[string]*cloudv1.LoadBalancer  `json:"load_balancers"`
	NodeGroups    map[string]*cloudv1.NodeGroup     `json:"node_groups"`
	Edges         map[string]*cloudv1.Edge          `json:"edges"`
	KeyPairs      map[string]CertificateWithKeyPair `json:"certificates"`
	// Unread has the certificates whose key pairs are to be read, with their revisions. It is kept with the rest: the
	// changes that named them are not reported again.
	Unread map[string]string `json:"unread,omitempty"`
}

// CertificateWithKeyPair is a certificate's key pair as of a revision of the certificate.
type CertificateWithKeyPair struct {
	Revision string `json:"revision"`
	cloudv1.KeyPair
}

// New returns an empty State.
func New() *State {
	return &State{
		LoadBalancers: map[string]*cloudv1.LoadBalancer{}, NodeGroups: map[string]*cloudv1.NodeGroup{},
		Edges: map[string]*cloudv1.Edge{}, KeyPairs: map[string]CertificateWithKeyPair{}, Unread: map[string]string{},
	}
}

// clone returns a copy with maps of its own.
func (s *State) clone() *State {
	return &State{
		Cloud: s.Cloud, Revision: s.Revision, LoadBalancers: maps.Clone(s.LoadBalancers), NodeGroups: maps.Clone(s.NodeGroups),
		Edges: maps.Clone(s.Edges), KeyPairs: maps.Clone(s.KeyPairs), Unread: maps.Clone(s.Unread),
	}
}

// apply returns the state after changes.
func (s *State) apply(changes *cloudv1.Changes) (*State, error) {
	next := s.clone()
	next.Revision = changes.Revision
	for _, c := range changes.Items {
		if c.Op == cloudv1.ChangeDelete {
			next.remove(c.Kind, c.ID)
			continue
		}
		var err error
		switch c.Kind {
		case cloudv1.KindLoadBalancer:
			err = decode(c, next.LoadBalancers)
		case cloudv1.KindNodeGroup:
			err = decode(c, next.NodeGroups)
		case cloudv1.KindEdge:
			err = decode(c, next.Edges)
		case cloudv1.KindCertificate:
			next.Unread[c.ID] = c.Revision
		}
		if err != nil {
			return nil, err
		}
	}
	return next, nil
}

func (s *State) remove(kind, id string) {
	switch kind {
	case cloudv1.KindLoadBalancer:
		delete(s.LoadBalancers, id)
	case cloudv1.KindNodeGroup:
		delete(s.NodeGroups, id)
	case cloudv1.KindEdge:
		delete(s.Edges, id)
	case cloudv1.KindCertificate:
		delete(s.KeyPairs, id)
		delete(s.Unread, id)
	}
}

func decode[T any](c cloudv1.Change, into map[string]*T) error {
	object := new(T)
	if err := json.Unmarshal(c.Object, object); err != nil {
		return fmt.Errorf("decode %s %s: %w", c.Kind, c.ID, err)
	}
	into[c.ID] = object
	return nil
}

// Load reads the state that Save wrote to a file. Without a file, it returns an empty state.
func Load(path string) (*State, error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return New(), nil
	}
	if err != nil {
		return nil, fmt.Errorf("read state: %w", err)
	}
	s := New()
	if err := json.Unmarshal(raw, s); err != nil {
		return nil, fmt.Errorf("read state %s: %w", path, err)
	}
	return s, nil
}

// Save replaces the file, which holds private keys.
func (s *State) Save(path string) error {
	raw, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("encode state: %w", err)
	}
	if err := durable.Replace(path, raw); err != nil {
		return fmt.Errorf("save state: %w", err)
	}
	return nil
}
