{{/* Where a webhook is called: (list $ "/path") */}}
{{- define "quaymaster.webhook.clientConfig" -}}
{{- $root := index . 0 -}}
{{- $path := index . 1 -}}
{{- if $root.Values.webhook.url -}}
url: {{ trimSuffix "/" $root.Values.webhook.url }}{{ $path }}
{{- else -}}
service:
  namespace: {{ $root.Release.Namespace }}
  name: {{ include "quaymaster.fullname" $root }}-webhook
  path: {{ $path }}
  port: 443
{{- end }}
{{- with $root.Values.webhook.caBundle }}
caBundle: {{ b64enc . }}
{{- end }}
{{- end -}}

{{/*
What a webhook is asked about, and how: (list $ "group/version" "resource" "Scope" "OPERATION"...). The main resource alone is
named, never its status. Users choose where Services and their claims are reviewed; volumes and policies always are.
*/}}
{{- define "quaymaster.webhook.about" -}}
{{- $root := index . 0 -}}
{{- $version := splitList "/" (index . 1) -}}
rules:
  - apiGroups: [{{ first $version | quote }}]
    apiVersions: [{{ last $version }}]
    resources: [{{ index . 2 }}]
    operations: [{{ slice . 4 | join ", " }}]
    scope: {{ index . 3 }}
matchPolicy: Equivalent
sideEffects: None
admissionReviewVersions: [v1]
timeoutSeconds: {{ $root.Values.webhook.timeoutSeconds }}
{{- if has (index . 2) (list "services" "persistentvolumeclaims") }}
{{- with $root.Values.webhook.namespaceSelector }}
namespaceSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Finalizers of an object being deleted can always go. */}}
{{- define "quaymaster.webhook.notBeingDeleted" -}}
- name: not-being-deleted
  expression: "!has(object.metadata.deletionTimestamp)"
{{- end -}}

{{/* Whether a claim asks for more than before. */}}
{{- define "quaymaster.webhook.grows" -}}
quantity(object.spec.?resources.?requests.?storage.orValue('0')).isGreaterThan(quantity(oldObject.spec.?resources.?requests.?storage.orValue('0')))
{{- end -}}
