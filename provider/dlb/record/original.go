package record

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"strings"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/provider/dlb/tree"
	"quaymaster.dev/provider/ownership"
)

// Original returns a load balancer as its owner has offered it for adoption, in a form to record, and its hash.
func Original(lb *cloudv1.LoadBalancer) (text, hash string) {
	spec := tree.Of(lb)
	spec.Tags = without(lb.Tags, ownership.ClusterUID, ownership.ServiceUID, ownership.Original)
	raw, _ := json.Marshal(spec) // a tree of strings and numbers can be encoded
	var compressed bytes.Buffer
	w := gzip.NewWriter(&compressed)
	_, _ = w.Write(raw) // writes to a buffer do not fail
	_ = w.Close()
	return base64.StdEncoding.EncodeToString(compressed.Bytes()), Hash(raw)
}

// Lacks reports whether the original of an adopted load balancer is not recorded, though it is still as it was.
func (r *Record) Lacks(lb *cloudv1.LoadBalancer) bool {
	hash, adopted := lb.Tags[ownership.Original]
	if !adopted || r.Original != "" {
		return false
	}
	_, now := Original(lb)
	return now == hash
}

// original returns the recorded original, if it has the hash.
func (r *Record) original(hash string) (spec cloudv1.LoadBalancerSpec, known bool) {
	reader, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(r.Original)))
	if err != nil {
		return spec, false
	}
	raw, err := io.ReadAll(io.LimitReader(reader, 16<<20))
	return spec, err == nil && Hash(raw) == hash && json.Unmarshal(raw, &spec) == nil
}

// Released returns the tree of a load balancer that its Service no longer uses: that which an adopted one had, or else the
// same tree without backends, because the node ports will belong to others.
func (r *Record) Released(lb *cloudv1.LoadBalancer) cloudv1.LoadBalancerSpec {
	if spec, known := r.original(lb.Tags[ownership.Original]); known {
		// What others have changed meanwhile stays: an offer that was withdrawn, protection in an emergency.
		spec.Tags = r.returnedTags(spec.Tags, lb.Tags)
		spec.DeletionProtection = spec.DeletionProtection || tree.ForeignProtection(lb)
		return spec
	}
	spec := tree.Of(lb)
	spec.Tags, spec.DeletionProtection = withoutOurs(lb.Tags), tree.ForeignProtection(lb)
	for i := range spec.Pools {
		spec.Pools[i].NodeGroupID, spec.Pools[i].Members = "", nil
	}
	return spec
}

// returnedTags returns the tags of an adopted load balancer without ours, and with those that the Service has set as they
// were before.
func (r *Record) returnedTags(was, now map[string]string) map[string]string {
	tags := withoutOurs(now)
	for _, key := range r.Applied.Tags {
		delete(tags, key)
		if value, had := was[key]; had {
			tags[key] = value
		}
	}
	return tags
}

func withoutOurs(tags map[string]string) map[string]string {
	return without(tags, ownership.ClusterUID, ownership.ServiceUID, ownership.Protected, ownership.Original)
}

func without(tags map[string]string, keys ...string) map[string]string {
	rest := maps.Clone(tags)
	maps.DeleteFunc(rest, func(key, _ string) bool { return slices.Contains(keys, key) })
	return rest
}
