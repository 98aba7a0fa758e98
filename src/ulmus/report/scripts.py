"""The panels of a report, as scripts; each leaves a page alone that has no such panel."""

#: Costs of mistakes, and the threshold that is cheapest.
THRESHOLD = """
(function(){var box=document.getElementById('threshold-box');if(!box)return;
var data=JSON.parse(box.getAttribute('data-rows')),alarm=document.getElementById('cost-alarm'),
miss=document.getElementById('cost-miss'),slide=document.getElementById('threshold'),out=document.getElementById('threshold-out');
function cost(t){var fp=0,fn=0,tp=0;for(var i=0;i<data.p.length;i++){var yes=data.p[i]>=t;
if(yes&&data.y[i])tp++;else if(yes)fp++;else if(data.y[i])fn++}
return {fp:fp,fn:fn,tp:tp,c:(fp*alarm.value+fn*miss.value)/data.p.length}}
function best(){var b=[0.5,Infinity];for(var k=0;k<=200;k++){var c=cost(k/200).c;if(c<b[1]-1e-12)b=[k/200,c]}
slide.value=b[0];show()}
function show(){var t=+slide.value,r=cost(t),n=r.tp+r.fp,m=r.tp+r.fn;
out.textContent='threshold '+t.toFixed(3)+': '+r.fp+' false positives, '+r.fn+' false negatives, cost per row '+
r.c.toFixed(4)+', precision '+(n?(r.tp/n).toFixed(3):'–')+', recall '+(m?(r.tp/m).toFixed(3):'–')}
[alarm,miss].forEach(function(e){e.addEventListener('input',best)});slide.addEventListener('input',show);best()})();
"""

#: A row whose values are changed.
WHAT_IF = """
(function(){var box=document.getElementById('what-if-box');if(!box)return;
var d=JSON.parse(box.getAttribute('data-answers')),row=document.getElementById('what-if-row'),
out=document.getElementById('what-if-out'),was=document.getElementById('what-if-was'),
sliders=[].slice.call(box.querySelectorAll('input[type=range]'));
function show(){var r=+row.value,k=0,own=true;sliders.forEach(function(s,j){k=k*d.values[r][j].length+ +s.value;
document.getElementById('what-if-'+j).textContent=d.values[r][j][s.value];if(+s.value!==d.at[r][j])own=false});
out.textContent=d.called+': '+d.answered[r][k]+(own?' (as it is)':'')}
function choose(){var r=+row.value;sliders.forEach(function(s,j){s.max=d.values[r][j].length-1;s.value=d.at[r][j]});
was.textContent=d.others[r];show()}
row.addEventListener('change',choose);sliders.forEach(function(s){s.addEventListener('input',show)});choose()})();
"""
