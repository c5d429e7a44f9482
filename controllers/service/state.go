package service

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quaymaster.dev/internal/kube/condition"
)

// longestMessage is the API's limit for a condition's message, in bytes.
const longestMessage = 32768

// store writes a State to a Service.
func store(svc *corev1.Service, state State, now time.Time) {
	if state.Record != "" {
		metav1.SetMetaDataAnnotation(&svc.ObjectMeta, AnnotationRecord, state.Record)
	}
	if state.Published != nil {
		svc.Status.LoadBalancer = *state.Published.DeepCopy()
	}
	for _, c := range state.Conditions {
		c.ObservedGeneration = svc.Generation
		// The API stores whole seconds.
		c.LastTransitionTime = metav1.NewTime(now.Truncate(time.Second))
		if len(c.Message) > longestMessage {
			c.Message = strings.ToValidUTF8(c.Message[:longestMessage], "")
		}
		// This keeps the time of the last transition if the status is the same.
		meta.SetStatusCondition(&svc.Status.Conditions, c)
	}
}

// configured reports whether the cloud has what the Service asks for.
func configured(svc *corev1.Service) bool {
	return meta.IsStatusConditionTrue(svc.Status.Conditions, condition.Configured)
}

// serving reports whether the data plane serves what the Service asks for. Not every cloud knows.
func serving(svc *corev1.Service) bool {
	return configured(svc) && meta.IsStatusConditionFalse(svc.Status.Conditions, condition.Degraded)
}
