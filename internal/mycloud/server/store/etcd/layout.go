package etcd

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"quaymaster.dev/internal/mycloud/server/store"
)

// The keys of a state under its prefix. They outlive the program.
const (
	// headKey has the last commit.
	headKey = "head"
	// dataKeys are followed by bucket, slash and key, and largeKeys by the number of a part of the value as well.
	dataKeys, largeKeys = "data/", "large/"
	// stagedKeys are followed by the commit, its id and the number of a batch.
	stagedKeys = "staged/"
	// termKeys have the servers that lead or wait for that.
	termKeys = "terms/"

	// followedFrom and followedTo are the range of keys that a server follows: head, dataKeys and largeKeys.
	followedFrom, followedTo = dataKeys, "large0"
)

// The limits of etcd are 128 operations and 1.5 MiB per transaction, unless its flags change them.
const (
	batchOperations, batchBytes = 100, 768 << 10
	// Larger values have parts.
	inlineBytes, partBytes = 32 << 10, 512 << 10
)

// head is the last commit of a state.
type head struct {
	Commit uint64 `json:"commit"`
	ID     string `json:"id"`
	// After is the ID of the commit before.
	After string `json:"after,omitempty"`
	// Staged is the number of batches in stagedKeys that the commit consists of, until all of them are applied.
	Staged int `json:"staged,omitempty"`
}

func (h *head) encode() string {
	raw, _ := json.Marshal(h) // never fails
	return string(raw)
}

// staged returns the key of a batch.
func (h *head) staged(batch int) string {
	return fmt.Sprintf("%s%016x/%s/%08x", stagedKeys, h.Commit, h.ID, batch)
}

// operation puts or deletes a key under the prefix.
type operation struct {
	Key   []byte `json:"key"`
	Value []byte `json:"value,omitempty"`
	// Delete deletes the key.
	Delete bool `json:"delete,omitempty"`
}

func (o *operation) request(prefix string) clientv3.Op {
	if o.Delete {
		return clientv3.OpDelete(prefix + string(o.Key))
	}
	return clientv3.OpPut(prefix+string(o.Key), string(o.Value))
}

func requests(prefix string, batch []operation) []clientv3.Op {
	all := make([]clientv3.Op, 0, len(batch))
	for _, o := range batch {
		all = append(all, o.request(prefix))
	}
	return all
}

// keysOf returns the keys of a value with a length; none for -1.
func keysOf(bucket, key string, length int) []string {
	switch {
	case length < 0:
		return nil
	case length <= inlineBytes:
		return []string{dataKeys + bucket + "/" + key}
	}
	var keys []string
	for i := range (length + partBytes - 1) / partBytes {
		keys = append(keys, fmt.Sprintf("%s%s/%s/%08x", largeKeys, bucket, key, i))
	}
	return keys
}

// batchesOf returns the operations of writes in batches that etcd accepts.
func batchesOf(writes []store.Write) [][]operation {
	var batches [][]operation
	var batch []operation
	size := 0
	add := func(o operation) {
		n := len(o.Key) + len(o.Value)
		if len(batch) == batchOperations || size+n > batchBytes && len(batch) > 0 {
			batches, batch, size = append(batches, batch), nil, 0
		}
		batch, size = append(batch, o), size+n
	}
	for _, w := range writes {
		length := len(w.Value)
		if w.Value == nil {
			length = -1
		}
		keys := keysOf(w.Bucket, w.Key, length)
		kept := map[string]bool{}
		for i, k := range keys {
			value := w.Value
			if len(keys) > 1 || length > inlineBytes {
				value = value[i*partBytes : min((i+1)*partBytes, length)]
			}
			kept[k] = true
			add(operation{Key: []byte(k), Value: value})
		}
		was := keysOf(w.Bucket, w.Key, w.Was)
		if w.Key == "" && w.Value == nil {
			was = keysOf(w.Bucket, "", 0)
		}
		for _, k := range was {
			if !kept[k] {
				add(operation{Key: []byte(k), Delete: true})
			}
		}
	}
	if len(batch) > 0 {
		batches = append(batches, batch)
	}
	return batches
}

// writesOf returns the writes of the operations of one commit.
func writesOf(operations []operation) ([]store.Write, error) {
	type place struct{ bucket, key string }
	index := map[place]int{}
	var writes []store.Write
	for _, o := range operations {
		key, inline := strings.CutPrefix(string(o.Key), dataKeys)
		if !inline {
			var large bool
			if key, large = strings.CutPrefix(key, largeKeys); !large || len(key) < 9 {
				return nil, fmt.Errorf("key %q is unknown", o.Key)
			}
			key = key[:len(key)-9]
		}
		var at place
		var ok bool
		if at.bucket, at.key, ok = strings.Cut(key, "/"); !ok {
			return nil, fmt.Errorf("key %q is unknown", o.Key)
		}
		i, known := index[at]
		if !known {
			i = len(writes)
			index[at] = i
			writes = append(writes, store.Write{Bucket: at.bucket, Key: at.key})
		}
		// A value may move between keys; then one operation deletes a former one. Parts are in their order.
		if !o.Delete {
			writes[i].Value = append(append([]byte{}, writes[i].Value...), o.Value...)
		}
	}
	return writes, nil
}

func decodeHead(raw []byte) (head, error) {
	var h head
	if err := json.Unmarshal(raw, &h); err != nil {
		return h, fmt.Errorf("decode the head of the state: %w", err)
	}
	if h.ID == "" {
		return h, errors.New("decode the head of the state: it has no id")
	}
	return h, nil
}
