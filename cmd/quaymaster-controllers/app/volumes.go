package app

import (
	"quaymaster.dev/controllers/persistentvolume"
	"quaymaster.dev/internal/lookup"
)

// addVolumes adds the controller of PersistentVolumes.
func (a *assembler) addVolumes() error {
	c, err := persistentvolume.New(persistentvolume.Options{
		PersistentVolumes: a.core.PersistentVolumes(),
		Client:            a.api.CoreV1(),
		Labeler:           lookup.New(lookup.Options{Cloud: a.cloud, OnLookup: a.measured.Lookup}),
		Recorder:          a.completed.EventRecorder,
	})
	if err != nil {
		return err
	}
	a.assembly.Run[persistentvolume.Name] = c.Run
	return register(c.Metrics())
}
