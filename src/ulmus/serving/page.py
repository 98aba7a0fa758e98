"""The page: a form of the table's columns, and an upload."""

import json
from html import escape
from typing import Any

from ulmus.features.written import Kind
from ulmus.report.page import STYLE
from ulmus.serving.answers import Predictor

#: Levels that a list offers.
MANY = 200
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; img-src data:"
MORE = """
form{display:grid;grid-template-columns:repeat(auto-fill,minmax(15rem,1fr));gap:.75rem;margin:1rem 0}
label{display:flex;flex-direction:column;font-size:.9rem;gap:.15rem}
label small{opacity:.7}
input,select,textarea,button{font:inherit;padding:.35rem;border:1px solid #888;border-radius:.25rem;background:inherit;
color:inherit;max-width:100%}
button{cursor:pointer;font-weight:600}
output{display:block;font-size:1.3rem;min-height:2rem;margin:.5rem 0}
.bad{color:#b00020}
#notes,#answer{white-space:pre-line}
#notes:empty{display:none}
"""
SCRIPT = """
(function(){var form=document.getElementById('row'),out=document.getElementById('answer'),CLASSES=__CLASSES__;
function say(text,bad){out.textContent=text;out.className=bad?'bad':''}
function number(v){return typeof v==='number'?String(Number(v.toPrecision(6))):String(v)}
form.addEventListener('submit',function(e){e.preventDefault();var row={};
new FormData(form).forEach(function(v,k){row[k]=v===''?null:v});
var ask={rows:[row]};if(CLASSES)ask.proba=true;else ask.interval=0.9;
fetch('predict',{method:'POST',headers:{'Content-Type':'application/json'},body:JSON.stringify(ask)})
.then(function(r){return r.json().then(function(a){
if(!r.ok){say(a.error,true);return}
var t=number(a.predictions[0]);
if(a.probabilities){var p=a.probabilities[0].map(function(v,k){return [v,a.classes[k]]})
.sort(function(x,y){return y[0]-x[0]})
.slice(0,4).map(function(q){return q[1]+' '+(100*q[0]).toFixed(1)+' %'});t+='  ('+p.join(', ')+')'}
if(a.intervals)t+='  (90 %: '+number(a.intervals[0][0])+' … '+number(a.intervals[0][1])+')';
if(a.warnings)t+='\\n'+a.warnings.join('\\n');say(t,false)})}).catch(function(e){say('no answer: '+e,true)})});
var file=document.getElementById('file'),link=document.getElementById('link');
file.addEventListener('change',function(){if(!file.files.length)return;link.textContent='…';link.removeAttribute('href');
document.getElementById('notes').textContent='';
fetch('csv',{method:'POST',body:file.files[0]}).then(function(r){
if(!r.ok)return r.json().then(function(a){link.textContent=a.error;link.className='bad'});
return r.blob().then(function(b){link.className='';link.href=URL.createObjectURL(b);link.download='predictions.csv';
link.textContent='predictions.csv';var w=JSON.parse(r.headers.get('Ulmus-Warnings')||'[]');
document.getElementById('notes').textContent=w.join('\\n')})})
.catch(function(e){link.textContent='no answer: '+e;link.className='bad'})})})();
"""


def form_page(predictor: Predictor) -> str:
    """HTML for a model."""
    schema = predictor.schema
    fields = "".join(_field(name, kind, _levels(predictor, name)) for name, kind in schema.columns.items())
    title = f"{schema.target}: {schema.task}"
    script = SCRIPT.replace("__CLASSES__", json.dumps(predictor.classes is not None))
    example = json.dumps({"rows": [dict.fromkeys(list(schema.columns)[:3])]}, ensure_ascii=False)
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<title>{escape(title)}</title><link rel="icon" href="data:,"><style>{STYLE}{MORE}</style></head><body>'
        f"<h1>{escape(title)}</h1><p>What is left empty counts as missing.</p>"
        f'<form id="row" autocomplete="off">{fields}<button>Predict</button></form>'
        '<output id="answer" for="row"></output>'
        "<h2>A file</h2><p>CSV, JSON lines or Parquet, with these columns; it comes back with the predictions beside "
        'them.</p><p><input type="file" id="file" aria-label="a table"> <a id="link"></a></p>'
        '<p id="notes" class="note"></p>'
        f"<h2>JSON</h2><pre>POST /predict\n{escape(example)}</pre><p>Add <code>proba: true</code> for classes, "
        '<code>interval: 0.9</code> for numbers. <a href="schema">The columns as JSON.</a></p>'
        f"<script>{script}</script></body></html>"
    )


def _levels(predictor: Predictor, name: str) -> list[str]:
    encoder: Any = predictor.model[0]
    encoder = getattr(encoder, "encoder_", encoder)
    for reader in getattr(encoder, "readers_", ()):
        if reader.name == name and reader.kind.name == "category" and reader.levels is not None:
            return list(reader.levels)[:MANY]
    return []


def _field(name: str, kind: Kind, levels: list[str]) -> str:
    label = escape(name, quote=True)
    if kind.name == "boolean":
        options = "".join(f"<option>{word}</option>" for word in ("", "true", "false"))
        field = f'<select name="{label}">{options}</select>'
    elif levels:
        options = "".join(f"<option>{escape(level)}</option>" for level in ["", *levels])
        field = f'<select name="{label}">{options}</select>'
    elif kind.name == "text":
        field = f'<textarea name="{label}" rows="2"></textarea>'
    else:
        mode = ' inputmode="decimal"' if kind.name == "number" else ""
        field = f'<input name="{label}"{mode}>'
    return f"<label>{escape(name)} <small>{escape(str(kind))}</small>{field}</label>"
