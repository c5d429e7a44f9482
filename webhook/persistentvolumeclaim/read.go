package persistentvolumeclaim

import (
	"bytes"
	"context"
	"errors"
	"regexp"

	"github.com/go-json-experiment/json/jsontext"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quaymaster.dev/webhook"
	"quaymaster.dev/webhook/stream"
)

// admitter returns an Admitter of PersistentVolumeClaims.
func admitter(admit func(context.Context, *webhook.Request) (*admissionv1.AdmissionResponse, error)) webhook.Admitter {
	return webhook.Admitter{
		Resource: corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"), Kind: "PersistentVolumeClaim",
		Decodable: func() webhook.Decodable { return &decodable{} }, Admit: admit,
	}
}

// decodable has the fields of a PersistentVolumeClaim that admission uses.
type decodable struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        struct {
		webhook.Metadata
		Annotations class `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		Resources struct {
			Requests *storage `json:"requests"`
		} `json:"resources"`
		StorageClassName *string `json:"storageClassName"`
		VolumeName       string  `json:"volumeName"`
	} `json:"spec"`
	Status struct {
		Phase    corev1.PersistentVolumeClaimPhase `json:"phase"`
		Capacity *storage                          `json:"capacity"`
	} `json:"status"`
}

// Object returns the PersistentVolumeClaim.
func (d *decodable) Object() webhook.Object {
	pvc := &corev1.PersistentVolumeClaim{TypeMeta: d.TypeMeta, ObjectMeta: d.Metadata.ObjectMeta()}
	pvc.Annotations = d.Metadata.Annotations
	pvc.Spec.Resources.Requests, pvc.Status.Capacity = d.Spec.Resources.Requests.list(), d.Status.Capacity.list()
	pvc.Spec.StorageClassName, pvc.Spec.VolumeName, pvc.Status.Phase = d.Spec.StorageClassName, d.Spec.VolumeName, d.Status.Phase
	return pvc
}

// class has the annotation that names a class. Others would be held while the Admitter waits for the cloud.
type class map[string]string

// UnmarshalJSONFrom decodes the annotation.
func (c *class) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	return stream.Strings(d, (*map[string]string)(c), func(key string) bool { return key == corev1.BetaStorageClassAnnotation })
}

// storage is a list of resources with the only one that matters.
type storage struct {
	Storage quantity `json:"storage"`
}

func (s *storage) list() corev1.ResourceList {
	if s == nil || s.Storage.value == nil {
		return nil
	}
	return corev1.ResourceList{corev1.ResourceStorage: *s.Storage.value}
}

type quantity struct{ value *resource.Quantity }

// cheap matches quantities that take no time to parse. Others, such as 1e-30000000, take seconds.
var cheap = regexp.MustCompile(`^(null|[+-]?[0-9.]{1,64}([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,2})?)$`)

// UnmarshalJSONFrom decodes the quantity.
func (q *quantity) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	value, err := d.ReadValue()
	if err != nil {
		return err
	}
	q.value = &resource.Quantity{}
	text := bytes.TrimSpace(bytes.Trim(value, `"`))
	if !cheap.Match(text) || q.value.UnmarshalJSON(text) != nil {
		return errors.New("must be a quantity such as 10Gi, of fewer than 65 digits and with a small exponent")
	}
	return nil
}
