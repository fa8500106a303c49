{{- define "trustgraph-prompt.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "trustgraph-prompt.fullname" -}}
{{- $name := include "trustgraph-prompt.name" . -}}
{{- $usual := contains $name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $name) -}}
{{- $fullname := .Values.fullnameOverride | default $usual -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $fullname) -}}
{{- fail (printf "its objects would be named %q, expected lower-case letters, digits and -, beginning with a letter: set fullnameOverride" $fullname) -}}
{{- end -}}
{{- $fullname -}}
{{- end -}}

{{/* The labels by which Pods are selected, of: root, component, worker (its name, if it is one worker's). */}}
{{- define "trustgraph-prompt.selector" -}}
app.kubernetes.io/name: {{ include "trustgraph-prompt.name" .root | quote }}
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ .component }}
{{- with .worker }}
trustgraph-prompt/worker: {{ . | quote }}
{{- end }}
{{- end -}}

{{/* The labels of a Pod, of: root, component, worker, labels. Those by which it is selected cannot be changed. */}}
{{- define "trustgraph-prompt.podLabels" -}}
{{- $selector := include "trustgraph-prompt.selector" . | fromYaml -}}
{{- mergeOverwrite (deepCopy .root.Values.commonLabels) (deepCopy (.labels | default dict)) $selector | toYaml -}}
{{- end -}}

{{/* The labels of any other object, of the same. */}}
{{- define "trustgraph-prompt.labels" -}}
{{- $chart := printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" -}}
{{- $own := dict "helm.sh/chart" $chart "app.kubernetes.io/version" .root.Chart.AppVersion "app.kubernetes.io/managed-by" .root.Release.Service -}}
{{- mergeOverwrite (include "trustgraph-prompt.podLabels" . | fromYaml) $own | toYaml -}}
{{- end -}}

{{/* The metadata of an object, of: root, name, component, worker, labels, annotations, hook and weight. */}}
{{- define "trustgraph-prompt.metadata" -}}
{{- $annotations := deepCopy (.annotations | default dict) -}}
{{- if .hook -}}
{{- $_ := set $annotations "helm.sh/hook" .hook -}}
{{- $_ := set $annotations "helm.sh/hook-weight" (toString .weight) -}}
{{- $_ := set $annotations "helm.sh/hook-delete-policy" "before-hook-creation,hook-succeeded" -}}
{{- end -}}
name: {{ .name | quote }}
namespace: {{ .root.Release.Namespace | quote }}
labels:
  {{- include "trustgraph-prompt.labels" . | nindent 2 }}
{{- with $annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "trustgraph-prompt.image" -}}
{{- with .Values.image -}}
{{- .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end -}}
{{- end -}}
{{- end -}}

{{- define "trustgraph-prompt.serviceAccountName" -}}
{{- with .Values.serviceAccount -}}
{{- .name | default (.create | ternary (include "trustgraph-prompt.fullname" $) "default") -}}
{{- end -}}
{{- end -}}

{{/* The prompt files of the release, from values and from files of the chart: text by name, as JSON. */}}
{{- define "trustgraph-prompt.promptFiles" -}}
{{- $files := dict -}}
{{- if .Values.prompts.files -}}
{{- range $path, $bytes := .Files.Glob .Values.prompts.files -}}
{{- $_ := set $files (base $path) (toString $bytes) -}}
{{- end -}}
{{- if not $files -}}
{{- fail (printf "prompts.files: found no file of the chart that matches %q" .Values.prompts.files) -}}
{{- end -}}
{{- end -}}
{{- range $name, $prompt := .Values.prompts.entries -}}
{{- $file := printf "%s.%s" $name (kindIs "string" $prompt | ternary "prompt" "yaml") -}}
{{- if hasKey $files $file -}}
{{- fail (printf "prompts.entries.%s: a file of prompts.files has the same name" $name) -}}
{{- end -}}
{{- $_ := set $files $file (kindIs "string" $prompt | ternary $prompt (toYaml $prompt)) -}}
{{- end -}}
{{- toJson $files -}}
{{- end -}}

{{/* The ConfigMaps with prompts, as sources of a projected volume; of: root, and own (the name of the release's). */}}
{{- define "trustgraph-prompt.promptSources" -}}
{{- if include "trustgraph-prompt.promptFiles" .root | fromJson }}
- configMap:
    name: {{ .own | quote }}
{{- end }}
{{- range .root.Values.prompts.existingConfigMaps }}
- configMap:
    name: {{ . | quote }}
{{- end }}
{{- end -}}

{{/* The full name of a topic that may be given as class:space:name. */}}
{{- define "trustgraph-prompt.topic" -}}
{{- if contains "://" . -}}
{{- . -}}
{{- else -}}
{{- $parts := splitn ":" 3 . -}}
{{- printf "%s://%s/%s/%s" (eq $parts._0 "flow" | ternary "persistent" "non-persistent") $parts._1 $parts._0 $parts._2 -}}
{{- end -}}
{{- end -}}

{{/* The ports that a URL leads to, of one host or several, as a JSON list. */}}
{{- define "trustgraph-prompt.ports" -}}
{{- $scheme := regexFind "^[a-z+]+" . -}}
{{- $usual := get (dict "http" 80 "https" 443 "pulsar" 6650 "pulsar+ssl" 6651) $scheme | default 6379 -}}
{{- $hosts := regexReplaceAll "^[a-z+]+://" . "" | regexFind "^[^/?]*" | splitList "@" | last -}}
{{- $ports := list -}}
{{- range splitList "," $hosts -}}
{{- $ports = append $ports (regexFind ":[0-9]+$" . | trimPrefix ":" | default $usual | int) -}}
{{- end -}}
{{- toJson $ports -}}
{{- end -}}

{{/* A map without its keys that are null, on every level, as JSON. */}}
{{- define "trustgraph-prompt.withoutNulls" -}}
{{- $kept := dict -}}
{{- range $key, $value := . -}}
{{- if kindIs "map" $value -}}
{{- $_ := set $kept $key (include "trustgraph-prompt.withoutNulls" $value | fromJson) -}}
{{- else if not (kindIs "invalid" $value) -}}
{{- $_ := set $kept $key $value -}}
{{- end -}}
{{- end -}}
{{- toJson $kept -}}
{{- end -}}
