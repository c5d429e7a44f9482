package webhook

import (
	"github.com/go-json-experiment/json/jsontext"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quaymaster.dev/webhook/stream"
)

// Decodable is a struct with those fields of an object that admission uses.
type Decodable interface {
	// Object returns the object with these fields.
	Object() Object
}

// Metadata has the fields of metadata that are used of all objects.
type Metadata struct {
	Name              string       `json:"name"`
	GenerateName      string       `json:"generateName"`
	Namespace         string       `json:"namespace"`
	DeletionTimestamp *metav1.Time `json:"deletionTimestamp"`
}

// ObjectMeta returns the metadata of an object.
func (m *Metadata) ObjectMeta() metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: m.Name, GenerateName: m.GenerateName, Namespace: m.Namespace, DeletionTimestamp: m.DeletionTimestamp,
	}
}

// slot is an object of a request; null means that there is none.
type slot struct {
	decodable func() Decodable
	object    Object
	// mismatch is set if a value is of the wrong type, which matters if the object does.
	mismatch error
}

// UnmarshalJSONFrom decodes the object. After an error, it has the fields that were decoded before.
func (s *slot) UnmarshalJSONFrom(d *jsontext.Decoder) (err error) {
	if d.PeekKind() == 'n' {
		return d.SkipValue()
	}
	into := s.decodable()
	s.mismatch, err = stream.Part(d, into)
	s.object = into.Object()
	return err
}
