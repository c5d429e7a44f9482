package webhook

import (
	"encoding/base64"
	"encoding/json"

	"github.com/go-json-experiment/json/jsontext"
	admissionv1 "k8s.io/api/admission/v1"
)

// encodeReview returns the body with the response. Except for the status of a denial, it uses no reflection.
func encodeReview(response *admissionv1.AdmissionResponse) ([]byte, error) {
	const head = `{"kind":"` + reviewKind + `","apiVersion":"` + reviewVersion + `","response":{"uid":`
	body := append(make([]byte, 0, len(head)+sizeOf(response)), head...)
	body = appendText(body, string(response.UID))
	if response.Allowed {
		body = append(body, `,"allowed":true`...)
	} else {
		body = append(body, `,"allowed":false`...)
	}
	if response.Result != nil {
		status, err := json.Marshal(response.Result)
		if err != nil {
			return nil, err
		}
		body = append(append(body, `,"status":`...), status...)
	}
	if len(response.Patch) > 0 {
		body = append(body, `,"patch":"`...)
		body = append(base64.StdEncoding.AppendEncode(body, response.Patch), '"')
	}
	if response.PatchType != nil {
		body = appendText(append(body, `,"patchType":`...), string(*response.PatchType))
	}
	if len(response.AuditAnnotations) > 0 {
		body = appendMap(append(body, `,"auditAnnotations":`...), response.AuditAnnotations)
	}
	if len(response.Warnings) > 0 {
		body = appendTexts(append(body, `,"warnings":`...), response.Warnings)
	}
	return append(body, "}}"...), nil
}

// sizeOf estimates the length of a response without a status, so that most need no more memory.
func sizeOf(response *admissionv1.AdmissionResponse) int {
	size := 128 + len(response.UID) + base64.StdEncoding.EncodedLen(len(response.Patch))
	for key, value := range response.AuditAnnotations {
		size += len(key) + len(value) + len(`"":"",`)
	}
	for _, warning := range response.Warnings {
		size += len(warning) + len(`"",`)
	}
	return size
}

// appendText appends a string in JSON. Like encoding/json, it replaces what is not valid UTF-8.
func appendText(body []byte, text string) []byte {
	body, _ = jsontext.AppendQuote(body, text) // the error is about invalid UTF-8
	return body
}

func appendTexts(body []byte, texts []string) []byte {
	body = append(body, '[')
	for i, text := range texts {
		if i > 0 {
			body = append(body, ',')
		}
		body = appendText(body, text)
	}
	return append(body, ']')
}

// appendMap appends a map in JSON, in the order of the keys.
func appendMap(body []byte, entries map[string]string) []byte {
	body = append(body, '{')
	var few keyBuffer
	for i, key := range few.sorted(entries) {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(appendText(body, key), ':')
		body = appendText(body, entries[key])
	}
	return append(body, '}')
}
