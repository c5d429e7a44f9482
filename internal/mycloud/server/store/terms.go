package store

import (
	"bytes"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
)

const (
	// termsBucket has a key for each term of each object: kind, term and id, separated by zeros. It gets a new name when the
	// objects of older states have to be indexed again.
	termsBucket = "terms-2"
	// formerTermsBucket is that of older states.
	formerTermsBucket = "terms"
)

// Term is what objects of a kind can be found by, such as a tag.
type Term string

// TagTerm is the term of all objects with a tag.
func TagTerm(key, value string) Term {
	return Term("tag:" + url.QueryEscape(key) + "=" + url.QueryEscape(value))
}

// NameTerm is the term of the objects with a name. The name of an instance is its hostname; tombstones have none.
func NameTerm(name string) Term { return Term("name:" + url.QueryEscape(name)) }

// AddressTerm is the term of the instances with an address, in its canonical form.
func AddressTerm(address string) Term { return Term("address:" + address) }

// ReferenceTerm is the term of the objects that refer to another one.
func ReferenceTerm(kind, id string) Term {
	return Term("reference:" + kind + "/" + url.QueryEscape(id))
}

// FaultTerm is the term of the load balancers whose fault has a code.
func FaultTerm(code string) Term { return Term("fault:" + code) }

// ReservedTerm is the term of the addresses that are reserved.
const ReservedTerm Term = "reserved"

// RoleTerm is the term of the tokens with a role.
func RoleTerm(role string) Term { return Term("role:" + role) }

// EdgeTerm is the term of the tokens that only the edge with a name may use.
func EdgeTerm(name string) Term { return Term("edge:" + url.QueryEscape(name)) }

func tokenTerms(t *cloudv1.Token) []Term {
	terms := []Term{NameTerm(t.Name), RoleTerm(t.Role)}
	if t.Edge != "" {
		terms = append(terms, EdgeTerm(t.Edge))
	}
	return terms
}

func addressTerms(a *cloudv1.Address) []Term {
	terms := []Term{ReferenceTerm(cloudv1.KindLoadBalancer, a.LoadBalancerID)}
	if a.State == cloudv1.AddressReserved {
		terms = append(terms, ReservedTerm)
	}
	return terms
}

// instanceTerms returns the terms of an instance besides its tags.
func instanceTerms(i *cloudv1.Instance) []Term {
	if i.State == cloudv1.InstanceDeleted {
		return nil
	}
	terms := []Term{NameTerm(i.Hostname)}
	for _, a := range i.Addresses {
		if address, err := netip.ParseAddr(a.Address); err == nil {
			terms = append(terms, AddressTerm(address.String()))
		}
	}
	return terms
}

func nodeGroupTerms(g *cloudv1.NodeGroup) []Term { return []Term{NameTerm(g.Name)} }

func loadBalancerTerms(lb *cloudv1.LoadBalancer) []Term {
	terms := []Term{NameTerm(lb.Name)}
	if lb.Fault != nil {
		terms = append(terms, FaultTerm(lb.Fault.Code))
	}
	for _, p := range lb.Pools {
		if p.NodeGroupID != "" {
			terms = append(terms, ReferenceTerm(cloudv1.KindNodeGroup, p.NodeGroupID))
		}
	}
	for _, l := range lb.Listeners {
		if l.TLS == nil {
			continue
		}
		for _, id := range l.TLS.CertificateIDs {
			terms = append(terms, ReferenceTerm(cloudv1.KindCertificate, id))
		}
	}
	return terms
}

func routeTerms(r *cloudv1.Route) []Term {
	terms := []Term{ReferenceTerm(cloudv1.KindRouteTable, r.RouteTableID)}
	if r.NextHop.InstanceID != "" {
		terms = append(terms, ReferenceTerm(cloudv1.KindInstance, r.NextHop.InstanceID))
	}
	return terms
}

func volumeTerms(v *cloudv1.Volume) []Term {
	if v.AttachedTo == "" {
		return nil
	}
	return []Term{ReferenceTerm(cloudv1.KindInstance, v.AttachedTo)}
}

// Find returns the ids of the objects with a term in their order.
func (k Kind[T]) Find(tx *Tx, t Term) []string {
	b := tx.bolt.Bucket([]byte(termsBucket))
	if b == nil {
		return nil
	}
	prefix := termKey(k.Name, t, "")
	var ids []string
	c := b.Cursor()
	for key, _ := c.Seek(prefix); bytes.HasPrefix(key, prefix); key, _ = c.Next() {
		ids = append(ids, string(key[len(prefix):]))
	}
	return ids
}

// Having returns the objects with a term in the order of their ids.
func (k Kind[T]) Having(tx *Tx, t Term) ([]*T, error) {
	ids := k.Find(tx, t)
	found := make([]*T, 0, len(ids))
	for _, id := range ids {
		v, err := k.Get(tx, id)
		if err != nil {
			return nil, err
		}
		found = append(found, v)
	}
	return found, nil
}

// index replaces the terms of an object. A nil object has none.
func (k Kind[T]) index(tx *Tx, id string, was, now *T) error {
	old, terms := k.termsOf(was), k.termsOf(now)
	if maps.Equal(old, terms) {
		return nil
	}
	b, err := tx.bucket(termsBucket)
	if err != nil {
		return err
	}
	for t := range old {
		if !terms[t] {
			if err := b.Delete(termKey(k.Name, t, id)); err != nil {
				return fmt.Errorf("index %s %s: %w", k.Name, id, err)
			}
		}
	}
	for t := range terms {
		if !old[t] {
			if err := b.Put(termKey(k.Name, t, id), nil); err != nil {
				return fmt.Errorf("index %s %s: %w", k.Name, id, err)
			}
		}
	}
	return nil
}

func (k Kind[T]) termsOf(v *T) map[Term]bool {
	if v == nil {
		return nil
	}
	terms := map[Term]bool{}
	for key, value := range k.object(v).Tags {
		terms[TagTerm(key, value)] = true
	}
	if k.terms != nil {
		for _, t := range k.terms(v) {
			terms[t] = true
		}
	}
	return terms
}

func (k Kind[T]) reindex(tx *Tx) error {
	return k.Each(tx, func(v *T) error { return k.index(tx, k.object(v).ID, nil, v) })
}

func termKey(kind string, t Term, id string) []byte {
	return slices.Concat([]byte(kind), []byte{0}, []byte(t), []byte{0}, []byte(id))
}

// indexAll indexes the objects of a state that was written without this index.
func indexAll(tx *Tx) error {
	if tx.bolt.Bucket([]byte(termsBucket)) != nil {
		return nil
	}
	if err := tx.deleteBucket(formerTermsBucket); err != nil {
		return fmt.Errorf("delete the former index: %w", err)
	}
	if _, err := tx.bucket(termsBucket); err != nil {
		return err
	}
	for _, reindex := range []func(*Tx) error{
		Instances.reindex, Regions.reindex, Zones.reindex, InstanceTypes.reindex, NodeGroups.reindex,
		LoadBalancers.reindex, RouteTables.reindex, Routes.reindex, Volumes.reindex, VolumeTypes.reindex, Jobs.reindex,
		Holders.reindex, Edges.reindex, Certificates.reindex, Addresses.reindex,
		Tokens.reindex,
	} {
		if err := reindex(tx); err != nil {
			return fmt.Errorf("index the objects: %w", err)
		}
	}
	return nil
}
