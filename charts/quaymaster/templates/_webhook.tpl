{{/* How API servers reach a webhook: (list $ "/path") */}}
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
Which requests a webhook is called for, and how: (list $ "group/version" "resources" "Scope" "OPERATION"...). Users can
select the namespaces in which Services and claims are checked; volumes and policies always are.
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
{{ include "quaymaster.webhook.how" (list $root (has (first (splitList "," (index . 2))) (list "services" "persistentvolumeclaims"))) }}
{{- end -}}

{{/* How a webhook is called: (list $ true), with true if users can select the namespaces. */}}
{{- define "quaymaster.webhook.how" -}}
{{- $root := index . 0 -}}
matchPolicy: Equivalent
sideEffects: None
admissionReviewVersions: [v1]
timeoutSeconds: {{ $root.Values.webhook.timeoutSeconds }}
{{- if index . 1 }}
{{- with $root.Values.webhook.namespaceSelector }}
namespaceSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Finalizers of an object that is being deleted can always be removed. */}}
{{- define "quaymaster.webhook.notBeingDeleted" -}}
!has(object.metadata.deletionTimestamp)
{{- end -}}

{{/* True if a claim requests more than before. */}}
{{- define "quaymaster.webhook.grows" -}}
quantity(object.spec.?resources.?requests.?storage.orValue('0')).isGreaterThan(quantity(oldObject.spec.?resources.?requests.?storage.orValue('0')))
{{- end -}}

{{/*
What the webhook of templates needs, as JSON: the domains of keys of Services, and the templates that matter. One for
catalogs of other kinds matters if such a catalog is selected, and has the domains of its keys.
*/}}
{{- define "quaymaster.webhook.templates" -}}
{{- $known := .Files.Get "files/templates.yaml" | fromYaml -}}
{{- $selected := splitList "," (include "quaymaster.catalogs" .) -}}
{{- $domains := $known.domains -}}
{{- $kinds := $known.kinds -}}
{{- range $file, $text := .Values.catalogFiles -}}
  {{- $head := first (splitList "\n---" $text) | fromYaml -}}
  {{- $own := list -}}
  {{- range concat (default list $head.prefixes) (default list $head.sharedPrefixes) -}}
    {{- $own = append $own (first (splitList "/" .)) -}}
  {{- end -}}
  {{- $name := trimSuffix ".yaml" $file -}}
  {{- if or $head.kinds (hasKey $kinds $name) -}}
    {{- $_ := set $kinds $name (concat (default list (get $kinds $name)) $own) -}}
  {{- else -}}
    {{- $domains = concat $domains $own -}}
  {{- end -}}
{{- end -}}
{{- $templates := list -}}
{{- range concat $known.templates .Values.webhook.serviceTemplates.additional -}}
  {{- $of := list -}}
  {{- range $name := .catalogs -}}
    {{- if has $name $selected -}}{{- $of = concat $of (default list (get $kinds $name)) -}}{{- end -}}
  {{- end -}}
  {{- if or (not .catalogs) $of -}}
    {{- $templates = append $templates (merge (dict "domains" (uniq $of)) .) -}}
  {{- end -}}
{{- end -}}
{{- dict "domains" (uniq $domains) "templates" $templates | toJson -}}
{{- end -}}

{{/*
True if a value of an object has annotations with one of the domains at a path: (list "object" "path" "domains"). [] in the
path stands for every element of a list. A value may be null in a custom resource without a schema.
*/}}
{{- define "quaymaster.webhook.annotated" -}}
{{- $cut := splitn "[]." 2 (index . 1) -}}
[{{ index . 0 }}
{{- range splitList "." $cut._0 -}}
{{- if contains "-" . }}[?'{{ . }}']{{ else }}.?{{ . }}{{ end -}}
{{- end -}}
{{- if $cut._1 -}}
.orValue(null)].exists(elements, elements != null && elements.exists(e, {{ include "quaymaster.webhook.annotated" (list "e" $cut._1 (index . 2)) }}))
{{- else -}}
.orValue(null)].exists(annotations, annotations != null && annotations.exists(key, key.split('/')[0].lowerAscii() in {{ index . 2 }}))
{{- end -}}
{{- end -}}
