{{- define "neurald.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "neurald.labels" -}}
app.kubernetes.io/name: {{ .Release.Name }}
{{- end }}

{{- define "neurald.probes" -}}
startupProbe:
  httpGet: {path: /v2/health/live, port: {{ . }}}
  periodSeconds: 2
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /v2/health/live, port: {{ . }}}
  periodSeconds: 10
  timeoutSeconds: 5
readinessProbe:
  httpGet: {path: /v2/health/ready, port: {{ . }}}
  periodSeconds: 2
  timeoutSeconds: 2
{{- end }}

{{- define "neurald.mounts" -}}
- {name: temporary, mountPath: /tmp}
- {name: cache, mountPath: /var/cache/neurald}
- {name: state, mountPath: /var/lib/neurald}
{{- end }}

{{- define "neurald.volumes" -}}
- {name: temporary, emptyDir: {}}
- {name: cache, emptyDir: {}}
- {name: state, emptyDir: {}}
{{- end }}
