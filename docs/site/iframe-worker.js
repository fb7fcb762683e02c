// The search runs in a Worker, which browsers do not allow on pages that are opened from disk (file://). There a hidden frame does
// its work: the script runs in it, and what the two send each other are events. Nothing is fetched from elsewhere.
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.title = "search";
      document.body.append(frame);
      const inside = frame.contentWindow;
      inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }));
      this.ready = new Promise((done, failed) => {
        const script = inside.document.createElement("script");
        script.onload = () => done(inside);
        script.onerror = failed;
        script.src = new URL(url, location.href);
        inside.document.body.append(script);
      });
    }
    postMessage(data) {
      this.ready.then(inside => inside.dispatchEvent(new inside.MessageEvent("message", { data })));
    }
  };
  window.Worker = window.IFrameWorker;
}
