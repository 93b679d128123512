"use strict";
// Browsers start no worker from a file. Search runs in a frame instead, so that the site works without a server.
// The theme knows this class by its name.

class IFrameWorker extends EventTarget {
  constructor(url) {
    super();
    this.waiting = [];
    const frame = document.createElement("iframe");
    frame.hidden = true;
    frame.title = "search";
    document.body.append(frame);
    const inside = this.inside = frame.contentWindow;
    inside.postMessage = (data) => {
      const event = new MessageEvent("message", { data });
      this.dispatchEvent(event);
      this.onmessage?.(event);
    };
    inside.importScripts = (...urls) => urls.reduce((before, one) => before.then(() => this.load(one)), Promise.resolve());
    this.load(url).then(() => {
      this.ready = true;
      for (const data of this.waiting) this.postMessage(data);
    });
  }

  load(url) {
    const { document } = this.inside, script = document.createElement("script");
    script.src = url;
    document.head.append(script);
    return new Promise((done, failed) => Object.assign(script, { onload: done, onerror: failed }));
  }

  postMessage(data) {
    if (this.ready) this.inside.dispatchEvent(new MessageEvent("message", { data }));
    else this.waiting.push(data);
  }

  terminate() { this.inside.frameElement.remove(); }
}

if (location.protocol === "file:") Object.assign(window, { IFrameWorker, Worker: IFrameWorker });
