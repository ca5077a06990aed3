#include "pages/attention_page.hpp"

#include "output.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace hekla::app {
namespace {

// Weights as 16 bits each, base64: a page of GPT-2's 144 heads over 64 tokens is 1.6 MB.
std::string packed(const std::vector<float>& weights) {
    constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::vector<uint8_t> bytes;
    bytes.reserve(weights.size() * 2);
    for (const float w : weights) {
        const auto level = static_cast<unsigned>(std::lround(std::clamp(w, 0.0F, 1.0F) * 65535.0F));
        bytes.push_back(static_cast<uint8_t>(level & 0xffU));
        bytes.push_back(static_cast<uint8_t>(level >> 8));
    }
    std::string text;
    for (std::size_t i = 0; i < bytes.size(); i += 3) {
        const std::size_t rest = std::min<std::size_t>(3, bytes.size() - i);
        unsigned word = static_cast<unsigned>(bytes[i]) << 16;
        if (rest > 1) word |= static_cast<unsigned>(bytes[i + 1]) << 8;
        if (rest > 2) word |= bytes[i + 2];
        text += kDigits[word >> 18];
        text += kDigits[(word >> 12) & 63U];
        text += rest > 1 ? kDigits[(word >> 6) & 63U] : '=';
        text += rest > 2 ? kDigits[word & 63U] : '=';
    }
    return text;
}

constexpr const char* kHead = R"html(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Attention</title>
<style>
:root{color-scheme:light dark;--ink:#1d2733;--soft:#66727f;--page:#fbfbf9;--card:#fff;--line:#dfe3e6;--mark:#0b6e99;--low:#ffffff;--high:#08405c}
@media(prefers-color-scheme:dark){:root{--ink:#e6e9ec;--soft:#98a3ad;--page:#14181c;--card:#1b2127;--line:#303943;--mark:#5cc2ee;--low:#1b2127;--high:#8fdcff}}
*{box-sizing:border-box}body{margin:0;background:var(--page);color:var(--ink);font:14px/1.45 system-ui,sans-serif}
header{padding:18px 24px 6px}h1{font-size:19px;margin:0 0 2px}p{margin:0;color:var(--soft);max-width:78ch}
main{display:grid;grid-template-columns:minmax(300px,1fr) minmax(420px,1.5fr);gap:18px;padding:14px 24px 28px;align-items:start}
@media(max-width:900px){main{grid-template-columns:1fr}}
section{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:14px}
#detail{position:sticky;top:12px}h2{font-size:13px;margin:0 0 8px}
.layer{margin-bottom:12px}.layer b{display:block;font-size:12px;font-weight:600;color:var(--soft);margin-bottom:4px}
.heads{display:flex;flex-wrap:wrap;gap:5px}
.heads button{padding:0;border:1px solid var(--line);background:none;border-radius:4px;cursor:pointer;line-height:0;width:58px;height:58px;overflow:hidden}
.heads button[aria-pressed=true]{outline:2px solid var(--mark);outline-offset:1px}.heads canvas{width:56px;height:56px;image-rendering:pixelated}
.scroll{overflow:auto;max-height:62vh}svg text{font:11px ui-monospace,monospace;fill:var(--ink)}svg text.on{fill:var(--mark);font-weight:700}
#words{margin-top:12px;line-height:2.1}.w{padding:2px 3px;margin:1px;border-radius:3px;cursor:default;font-family:ui-monospace,monospace;font-size:12px;white-space:pre;display:inline-block}
.w.q{outline:2px solid var(--mark)}#say{min-height:1.5em;color:var(--soft);margin-top:8px;font-variant-numeric:tabular-nums}
.scale{display:flex;gap:8px;align-items:center;color:var(--soft);font-size:12px;margin-top:8px}.scale i{width:120px;height:9px;border-radius:3px;background:linear-gradient(90deg,var(--low),var(--high));border:1px solid var(--line)}
</style></head><body>
<header><h1 id="title"></h1><p>How much each token (a row) looks at each other one (a column). Rows sum to 1. Choose a head; point at a cell, or at a word below the map. Arrow keys go from head to head.</p></header>
<main><section id="all" aria-label="All heads"></section><section id="detail"><h2 id="name"></h2><div class="scroll"><svg id="map" role="img"></svg></div>
<div id="say"></div><div class="scale"><span>0</span><i></i><span>1 (colour by square root)</span></div><div id="words"></div></section></main>
<script>
"use strict";
const DATA=)html";

constexpr const char* kTail = R"html(;
const $=id=>document.getElementById(id),NS="http://www.w3.org/2000/svg";
document.title=DATA.title;$("title").textContent=DATA.title;
for(const l of DATA.layers){const s=atob(l.weights),n=s.length/2;l.w=new Float32Array(n);
 for(let i=0;i<n;i++)l.w[i]=(s.charCodeAt(2*i)|s.charCodeAt(2*i+1)<<8)/65535}
const at=(l,h,q,k)=>l.w[(h*l.queries.length+q)*l.keys.length+k];
function colors(){const c=getComputedStyle(document.documentElement),p=n=>{const v=c.getPropertyValue(n).trim().slice(1);return[0,2,4].map(i=>parseInt(v.substr(i,2),16))};return[p("--low"),p("--high")]}
let [low,high]=colors();
const mix=v=>{const t=Math.sqrt(v);return low.map((a,i)=>Math.round(a+(high[i]-a)*t))};
const css=v=>`rgb(${mix(v).join(",")})`;
const buttons=[];
function thumb(c,l,h){const nq=l.queries.length,nk=l.keys.length;c.width=nk;c.height=nq;const x=c.getContext("2d"),im=x.createImageData(nk,nq);
 for(let q=0;q<nq;q++)for(let k=0;k<nk;k++){const m=mix(at(l,h,q,k)),o=4*(q*nk+k);im.data[o]=m[0];im.data[o+1]=m[1];im.data[o+2]=m[2];im.data[o+3]=255}x.putImageData(im,0,0)}
DATA.layers.forEach((l,li)=>{const d=document.createElement("div");d.className="layer";const b=document.createElement("b");b.textContent=l.place;d.append(b);
 const hs=document.createElement("div");hs.className="heads";d.append(hs);
 for(let h=0;h<l.heads;h++){const e=document.createElement("button"),c=document.createElement("canvas");e.title=`${l.place}, head ${h}`;e.setAttribute("aria-label",e.title);e.append(c);hs.append(e);
  thumb(c,l,h);const n=buttons.length;e.onclick=()=>pick(n);buttons.push({e,c,l,h})}$("all").append(d)});
let current=0;
function el(n,a,t){const e=document.createElementNS(NS,n);for(const k in a)e.setAttribute(k,a[k]);if(t!==undefined)e.textContent=t;return e}
function pick(n){buttons[current].e.setAttribute("aria-pressed",false);current=n;const {e,l,h}=buttons[n];e.setAttribute("aria-pressed",true);
 $("name").textContent=`${l.place}, head ${h}`;$("say").textContent="";
 const nq=l.queries.length,nk=l.keys.length,cell=Math.max(7,Math.min(26,Math.floor(560/Math.max(nq,nk)))),label=Math.min(120,8+7*Math.max(...l.queries.map(t=>t.length)));
 const top=Math.min(120,8+7*Math.max(...l.keys.map(t=>t.length))),s=$("map");s.replaceChildren();s.setAttribute("width",label+nk*cell+4);s.setAttribute("height",top+nq*cell+4);
 const rows=[],cols=[],show=cell>=10;
 for(let k=0;k<nk;k++){const x=label+k*cell+cell/2+4,t=el("text",{transform:`translate(${x},${top-5}) rotate(-90)`},show?l.keys[k].slice(0,16):"");cols.push(t);s.append(t)}
 for(let q=0;q<nq;q++){const t=el("text",{x:label-5,y:top+q*cell+cell/2+4,"text-anchor":"end"},show?l.queries[q].slice(0,16):"");rows.push(t);s.append(t);
  for(let k=0;k<nk;k++){const r=el("rect",{x:label+k*cell,y:top+q*cell,width:cell-.5,height:cell-.5,fill:css(at(l,h,q,k))});
   r.onmouseenter=()=>{rows.forEach((t,i)=>t.classList.toggle("on",i==q));cols.forEach((t,i)=>t.classList.toggle("on",i==k));
    $("say").textContent=`“${l.queries[q]}” (${q}) → “${l.keys[k]}” (${k}): ${at(l,h,q,k).toFixed(4)}`;words(q)};s.append(r)}}
 words(nq-1)}
function words(q){const {l,h}=buttons[current],w=$("words");w.replaceChildren();const same=l.queries.join("\0")===l.keys.join("\0");
 const add=(t,i,isQ,v)=>{const e=document.createElement("span");e.className="w"+(isQ&&i==q?" q":"");e.textContent=t;
  if(v!==null){const m=mix(v);e.style.background=`rgb(${m.join(",")})`;e.style.color=(m[0]*3+m[1]*6+m[2])/10>140?"#111":"#fff";e.title=v.toFixed(4)}
  if(isQ)e.onmouseenter=()=>words(i);w.append(e)};
 if(same)l.keys.forEach((t,k)=>add(t,k,true,at(l,h,q,k)));
 else{l.queries.forEach((t,i)=>add(t,i,true,null));w.append(document.createElement("br"));l.keys.forEach((t,k)=>add(t,k,false,at(l,h,q,k)))}}
addEventListener("keydown",e=>{const d={ArrowRight:1,ArrowDown:1,ArrowLeft:-1,ArrowUp:-1}[e.key];if(!d)return;e.preventDefault();
 pick((current+d+buttons.length)%buttons.length);buttons[current].e.scrollIntoView({block:"nearest"})});
matchMedia("(prefers-color-scheme:dark)").addEventListener("change",()=>{[low,high]=colors();buttons.forEach(b=>thumb(b.c,b.l,b.h));pick(current)});
if(buttons.length)pick(0);
</script></body></html>
)html";

} // namespace

std::string attention_page(const std::string& title, const std::vector<AttentionPicture>& pictures) {
    nlohmann::ordered_json data{{"title", title}, {"layers", nlohmann::ordered_json::array()}};
    for (const AttentionPicture& p : pictures)
        data["layers"].push_back({{"place", p.place},
                                  {"heads", p.heads},
                                  {"queries", p.queries},
                                  {"keys", p.keys},
                                  {"weights", packed(p.weights)}});
    std::string json = json_line(data);
    // A token may spell the end of the script: no "<" is left in it.
    for (std::size_t at = json.find('<'); at != std::string::npos; at = json.find('<', at))
        json.replace(at, 1, "\\u003c");
    return kHead + json + kTail;
}

} // namespace hekla::app
