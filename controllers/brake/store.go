package brake

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"

	"quaymaster.dev/internal/kube/brakes"
)

const (
	// fieldManager is the owner of the ConfigMap in its managedFields.
	fieldManager = "quaymaster-brakes"
	// attempts bounds the repetitions of a write that meets other writers, such as operators.
	attempts = 5
	// counting is the result of a change that needs no Event.
	counting = "counting"
)

// change changes a brake and returns the reason of the Event about that, or an empty string to write nothing.
type change func(*corev1.ConfigMap, *brakes.Brake) string

// update writes a change on the condition that the ConfigMap is still the one on which the change was decided: another
// leader may have spent the same budget.
func (b *Book) update(ctx context.Context, name string, change change) error {
	b.writing.Lock()
	defer b.writing.Unlock()
	cm := b.current()
	for range attempts {
		if cm == nil || cm.ResourceVersion == "" {
			var err error
			if cm, err = b.read(ctx); err != nil {
				return err
			}
		}
		brake, err := brakes.Read(cm, name)
		if err != nil {
			return err
		}
		reason := change(cm, &brake)
		if reason == "" {
			return nil
		}
		written, err := b.write(ctx, cm, name, brake)
		switch {
		case err == nil:
			b.remember(written)
			b.report(written, name, brake, reason)
			return nil
		case !apierrors.IsConflict(err) && !apierrors.IsNotFound(err):
			return err
		}
		cm = nil
	}
	return errors.New("the record of brakes keeps changing")
}

func (b *Book) current() *corev1.ConfigMap {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.known
}

// read reads the ConfigMap, and creates it if there is none.
func (b *Book) read(ctx context.Context) (*corev1.ConfigMap, error) {
	maps := b.o.Client.CoreV1().ConfigMaps(b.o.Namespace)
	cm, err := maps.Get(ctx, brakes.ConfigMap, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		// Unlike a creation, it can be permitted for this name alone, and does not fail if the ConfigMap exists by now.
		cm, err = maps.Apply(ctx, applycorev1.ConfigMap(brakes.ConfigMap, b.o.Namespace).
			WithLabels(map[string]string{"app.kubernetes.io/managed-by": "quaymaster-controllers"}),
			metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	}
	if err != nil {
		return nil, fmt.Errorf("read ConfigMap %s/%s: %w", b.o.Namespace, brakes.ConfigMap, err)
	}
	b.remember(cm)
	return cm, nil
}

func (b *Book) write(
	ctx context.Context, cm *corev1.ConfigMap, name string, brake brakes.Brake,
) (*corev1.ConfigMap, error) {
	entry, err := brake.Encode()
	if err != nil {
		return nil, err
	}
	var value any // null removes the entry
	if entry != "" {
		value = entry
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": cm.ResourceVersion},
		"data":     map[string]any{name: value},
	})
	if err != nil {
		return nil, err
	}
	return b.o.Client.CoreV1().ConfigMaps(b.o.Namespace).Patch(ctx, brakes.ConfigMap, types.MergePatchType, patch,
		metav1.PatchOptions{FieldManager: fieldManager})
}

func (b *Book) report(cm *corev1.ConfigMap, name string, brake brakes.Brake, reason string) {
	switch reason {
	case eventEngaged:
		b.o.Recorder.Eventf(cm, corev1.EventTypeWarning, eventEngaged, "Brake %s is engaged: %s. "+
			"To resume the work for an hour, run: quayctl resume %s", name, brake.Engaged.Message, name)
	case eventReleased:
		b.o.Recorder.Eventf(cm, corev1.EventTypeNormal, eventReleased, "Brake %s is released", name)
	}
}
