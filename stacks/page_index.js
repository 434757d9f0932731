// Which file is asked for. CloudFront runs this before it answers for the page.

function handler(event) {
  var request = event.request;
  if (request.uri === "/page") {
    return { statusCode: 301, statusDescription: "Moved Permanently", headers: { location: { value: "/page/" } } };
  }
  if (request.uri === "/page/") request.uri = "/page/index.html";
  return request;
}
